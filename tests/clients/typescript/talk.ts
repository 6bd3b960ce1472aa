// One conversation through the generated client: created, appended to, read as a window and as a page, erased.
import createClient from "openapi-fetch";
import type { components, paths } from "./sash.js";

type Schemas = components["schemas"];
type Entry = Schemas["Entry"];

const headers = { Authorization: `Bearer ${process.env["SASH_API_KEY"]}` };
const sash = createClient<paths>({ baseUrl: process.env["SASH_URL"]!, headers });
const path = { conversation_id: `ts-${process.pid}` };

/** The data of a good answer; a problem ends the program with what it says. */
function good<T>(answer: { data?: T; error?: Schemas["NotFoundProblem"] | { title: string } }): T {
  if (answer.data === undefined) throw new Error(`${answer.error?.title}`);
  return answer.data;
}

const created = good(
  await sash.POST("/conversations", {
    body: { id: path.conversation_id, model: "gpt-4o-mini", system: "You help visitors of a conference." },
  }),
);

const question: Entry = {
  id: "m-1",
  message: { role: "user", content: "Is there a talk about Gradle?" },
  grounding: { documents: [{ id: "s-12", text: "Faster builds. Room 2, 14:00." }] },
};
const call: Schemas["FunctionToolCall"] = {
  id: "call-1",
  type: "function",
  function: { name: "find_talks", arguments: '{"topic": "gradle"}' },
};
const asks: Entry = { id: "m-2", message: { role: "assistant", content: null, tool_calls: [call] } };
const result: Entry = { id: "m-3", message: { role: "tool", tool_call_id: "call-1", content: "Faster builds, 14:00" } };
const appended = good(
  await sash.POST("/conversations/{conversation_id}/messages", {
    params: { path },
    body: { messages: [question, asks, result] },
  }),
);

const window = good(await sash.GET("/conversations/{conversation_id}/window", { params: { path, query: { explain: true } } }));
if (window.format !== "openai") throw new Error(window.format);
const roles = window.request.messages.map((message) => {
  // the discriminator narrows: only a tool's message has the id of its call
  return message.role === "tool" ? `tool ${message.tool_call_id}` : message.role;
});

const refused = await sash.GET("/conversations/{conversation_id}/window", {
  params: { path, query: { model: "gtp-4o-mini" } },
});
const problem = refused.error;
if (problem?.type !== "/problems/unknown-model") throw new Error(JSON.stringify(problem));
const near: string[] = problem.near ?? [];

const page = good(
  await sash.GET("/conversations/{conversation_id}/messages", { params: { path, query: { order: "desc", limit: 2 } } }),
);
const erased = await sash.DELETE("/conversations/{conversation_id}", { params: { path } });

// What must not compile: each line fails the check if it one day does.
// @ts-expect-error a role that there is not
const wrongRole: Entry = { message: { role: "narrator", content: "…" } };
// @ts-expect-error a member that our envelope refuses
const wrongMember: Entry = { message: { role: "user", content: "…" }, colour: "red" };
void [wrongRole, wrongMember];

console.log(
  JSON.stringify({
    created: created.version,
    appended: appended.messages.map((message) => message.seq),
    total: window.tokens.total,
    roles,
    status: refused.response.status,
    near: near.includes("gpt-4o-mini"),
    page: page.messages.map((message) => message.seq),
    more: page.next_cursor !== null,
    erased: erased.response.status,
  }),
);
