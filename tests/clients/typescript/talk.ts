// One conversation through the generated client: created, appended to, read as a window and as a page, erased.
import createClient from "openapi-fetch";
import type { components, paths } from "./sash.js";

type Schemas = components["schemas"];
type Entry = Schemas["Entry"];

const headers = { Authorization: `Bearer ${process.env["SASH_API_KEY"]}` };
const sash = createClient<paths>({ baseUrl: process.env["SASH_URL"]!, headers });
const path = { conversation_id: `ts-${process.pid}` };

/** The data of a good answer; a problem ends the program with what it says. */
function good<T>(answer: { data?: T; error?: Schemas["Problem"] }): T {
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
/** What an SDK's parameters are: the request goes to it as it is. */
type Sent = { messages: { role: string; tool_call_id?: string }[] };
const roles = (window.request as Sent).messages.map(({ role, tool_call_id }) => (role === "tool" ? `tool ${tool_call_id}` : role));

// A turn of Claude's with a tool, in Claude's own form.
const claudes = { conversation_id: `${path.conversation_id}-claude` };
const turn: Schemas["AppendMessages"] = {
  messages: [
    { role: "user", content: "Is there a talk about Gradle?" },
    { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "find_talks", input: { topic: "gradle" } }] },
    { id: "m-3", role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "Faster builds, 14:00" }] },
  ],
};
good(await sash.POST("/conversations/{conversation_id}/messages", { params: { path: claudes, query: { format: "anthropic" } }, body: turn }));
const claude = good(
  await sash.GET("/conversations/{conversation_id}/window", {
    params: { path: claudes, query: { format: "anthropic", model: "claude-sonnet-4-5" } },
  }),
);

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
const wrongRole: Schemas["ChatMessage"] = { role: "narrator", content: "…" };
// @ts-expect-error a member that our envelope refuses
const wrongMember: Entry = { message: { role: "user", content: "…" }, colour: "red" };
void [wrongRole, wrongMember];

console.log(
  JSON.stringify({
    created: created.version,
    appended: appended.messages.map((message) => message.seq),
    total: window.tokens.total,
    roles,
    claude: (claude.request as Sent).messages.map((message) => message.role),
    status: refused.response.status,
    near: near.includes("gpt-4o-mini"),
    page: page.messages.map((message) => message.seq),
    more: page.next_cursor !== null,
    erased: erased.response.status,
  }),
);
