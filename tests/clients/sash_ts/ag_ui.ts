// What AG-UI's own client makes of a conversation's events, and whether its schemas take them: `tsx ag_ui.ts SASH`.
import { AbstractAgent } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { from, type Observable } from "rxjs";
import { type AgUiEvent, Sash } from "./sash.ts";

const sash = new Sash(process.argv[2]!);
const name = "ag-ui";
const kinds: string[] = [];
const stop = new AbortController();

/** An agent that has a conversation, as CopilotKit connects to one. */
class Kept extends AbstractAgent {
  live = false;
  override run(): Observable<any> {
    return from(this.#told());
  }
  override connect(): Observable<any> {
    return from(this.#told());
  }
  async *#told(): AsyncGenerator<AgUiEvent> {
    for await (const event of sash.agUi(this.threadId, { live: this.live, signal: stop.signal })) {
      EventSchemas.parse(event);
      kinds.push(event.type);
      yield event;
      if (this.live && event["name"] === "sash.version") await step();
    }
  }
}

const reply = { id: "R", role: "assistant", continues: true } as const;
const call = { id: "c1", type: "function", function: { name: "look", arguments: '{"q":1}' } };
const steps: (() => Promise<unknown>)[] = [
  () => sash.append(name, [{ id: "u2", role: "user", content: "and?" }, { id: "R", role: "assistant", content: "At", status: "in_progress" }]),
  () => sash.append(name, [{ ...reply, content: "At no", status: "in_progress" }]),
  () => sash.append(name, [{ ...reply, content: "At noon.", status: "completed" }]),
  () => sash.append(name, [{ id: "a3", role: "assistant", content: null, tool_calls: [call], reasoning_content: "hm" }]),
  () => sash.append(name, [{ id: "t3", role: "tool", tool_call_id: "c1", content: "found" }]),
  () => sash.append(name, [{ id: "a4", role: "assistant", content: "One." }]),
  () => sash.append(name, [{ id: "a5", role: "assistant", content: "Other." }], { after_seq: "id:t3" }),
  () => sash.call("DELETE", `/conversations/${name}/messages/1`),
];
const step = async () => {
  const next = steps.shift();
  if (next) await next();
  else stop.abort();
};

await sash.append(name, [{ id: "u1", role: "user", content: "hello" }, { id: "a1", role: "assistant", content: "hi" }]);
const agent = new Kept({ threadId: name });
await agent.connectAgent({});
const connected = structuredClone(agent.messages);
const first = await history();
agent.live = true;
await agent.runAgent({}).catch((error) => error);
const followed = structuredClone(agent.messages);

async function history(): Promise<unknown[]> {
  return (await sash.call("GET", `/conversations/${name}/messages`, { format: "ag-ui" })).messages;
}

const none = new Kept({ threadId: "nobody" });
await none.connectAgent({});
console.log(JSON.stringify({ connected, first, followed, then: await history(), kinds: [...new Set(kinds)], none: none.messages }));
process.exit();
