// The buttons of presses.py for frameworks of TypeScript, and a backend of AG-UI that agrees.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Sash } from "./sash.ts";

export const sash = new Sash(process.env["SASH_URL"]);
const model = "gpt-4o-mini";

/** Answers r0, r1 and so on, each once, and records the texts of what it was sent. */
class Model {
  sent: string[][] = [];
  replies = 0;
  fails = false;
  waits: (() => void) | undefined;
}
const models: Record<string, Model> = {};

/** The backend: the log agrees with the page's chat and begins a reply, in one step; then the model answers. */
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = "";
  for await (const part of request) body += part;
  const { threadId, runId, messages } = JSON.parse(body);
  const its = models[threadId]!;
  const id = randomUUID();
  const begun = { id, role: "assistant", content: "", status: "in_progress" };
  const { window } = await sash.agree(threadId, [...messages, begun], { format: "ag-ui", model });
  its.sent.push(window!.request["messages"].map((each: { content: string }) => each.content));
  const end = (content: string, status: "completed" | "interrupted") =>
    sash.append(threadId, [{ id, message: { role: "assistant", content }, status, continues: true }]).catch(() => {});
  if (its.fails) {
    await end("", "interrupted");
    response.writeHead(500).end();
    return;
  }
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const tell = (event: object) => response.write(`data: ${JSON.stringify(event)}\n\n`);
  tell({ type: "RUN_STARTED", threadId, runId });
  if (its.waits) {
    its.waits();
    await new Promise((resolve) => response.on("close", resolve));
    await end("", "interrupted");
    return;
  }
  const text = `r${its.replies++}`;
  tell({ type: "TEXT_MESSAGE_START", messageId: id, role: "assistant" });
  tell({ type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: text });
  tell({ type: "TEXT_MESSAGE_END", messageId: id });
  await end(text, "completed");
  tell({ type: "RUN_FINISHED", threadId, runId });
  response.end();
}

const server = createServer((request, response) => void answer(request, response).catch(() => response.destroy()));
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
export const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

/** A tab with the framework's own chat: its buttons. */
export interface Tab {
  readonly texts: string[];
  readonly failed: boolean;
  send(text: string): Promise<void>;
  regenerate(): Promise<void>;
  edit(place: number, text: string): Promise<void>;
  stop(): void;
  /** The page is loaded anew. */
  load(): Promise<void>;
}

/** A chat in which one button is pressed. */
class Pressed {
  readonly open: (name: string) => Tab;
  readonly name = `pressed-${randomUUID().slice(0, 8)}`;
  readonly model = (models[this.name] = new Model());
  tab: Tab;

  constructor(open: (name: string) => Tab) {
    this.open = open;
    this.tab = open(this.name);
  }

  async turns(...texts: string[]): Promise<void> {
    for (const text of texts) await this.tab.send(text);
  }
  async log(): Promise<string[]> {
    const { messages } = await sash.messages(this.name);
    return messages.map((each: any) => each.message.content).filter(Boolean);
  }
  async branches(): Promise<any[]> {
    return (await sash.call("GET", `/conversations/${this.name}/branches`)).branches;
  }
  back(branch: string): Promise<unknown> {
    return sash.call("POST", `/conversations/${this.name}/branches/${branch}`, {}, {});
  }
  /** Page and log have these texts, and the model was sent just them, without its last reply. */
  async isNow(...texts: string[]): Promise<void> {
    assert.deepEqual(await this.log(), texts);
    assert.deepEqual(this.tab.texts, texts);
    assert.deepEqual(this.model.sent.at(-1), texts.slice(0, -1));
  }
}

const buttons: Record<string, (at: Pressed) => Promise<void>> = {
  send: async (at) => {
    await at.turns("one", "two");
    await at.isNow("one", "r0", "two", "r1");
  },
  "the same words again": async (at) => {
    await at.turns("go on", "go on");
    await at.isNow("go on", "r0", "go on", "r1");
  },
  regenerate: async (at) => {
    await at.turns("one", "two");
    await at.tab.regenerate();
    await at.isNow("one", "r0", "two", "r2");
    assert.ok((await at.branches()).length);
    await at.turns("three");
    await at.isNow("one", "r0", "two", "r2", "three", "r3");
  },
  "edit the first": async (at) => {
    await at.turns("one", "two");
    await at.tab.edit(0, "uno");
    await at.isNow("uno", "r2");
    await at.turns("three");
    await at.isNow("uno", "r2", "three", "r3");
  },
  "edit the last": async (at) => {
    await at.turns("one", "two");
    await at.tab.edit(1, "due");
    await at.isNow("one", "r0", "due", "r2");
  },
  "retry after 500": async (at) => {
    await at.turns("one");
    at.model.fails = true;
    await at.turns("two");
    assert.ok(at.tab.failed, "the model's failure was not told");
    at.model.fails = false;
    await at.tab.regenerate();
    await at.isNow("one", "r0", "two", "r1");
  },
  "stop and retry": async (at) => {
    await at.turns("one");
    const waits = new Promise<void>((resolve) => void (at.model.waits = resolve));
    const asking = at.turns("two");
    await waits;
    at.tab.stop();
    await asking;
    at.model.waits = undefined;
    await at.tab.regenerate();
    await at.isNow("one", "r0", "two", "r1");
  },
  reload: async (at) => {
    await at.turns("one");
    at.tab = at.open(at.name);
    await at.tab.load();
    await at.turns("two");
    await at.isNow("one", "r0", "two", "r1");
  },
  "two tabs": async (at) => {
    await at.turns("one");
    const other = at.open(at.name);
    await other.load();
    await at.turns("two");
    await other.send("three");
    const log = await at.log();
    const kept = [...log];
    for (const { id } of await at.branches()) {
      await at.back(id);
      kept.push(...(await at.log()));
    }
    for (const text of ["one", "r0", "two", "r1", "three", "r2"]) assert.ok(kept.includes(text), text);
    assert.equal(new Set(log).size, log.length);
  },
  "back to the old answer": async (at) => {
    await at.turns("one", "two");
    await at.tab.regenerate();
    await at.back((await at.branches())[0].id);
    await at.tab.load();
    assert.deepEqual(await at.log(), ["one", "r0", "two", "r1"]);
    await at.turns("three");
    await at.isNow("one", "r0", "two", "r1", "three", "r3");
  },
};

/** Press each button, and print what came of it. */
export async function press(open: (name: string) => Tab): Promise<void> {
  const found: Record<string, string> = {};
  for (const [name, button] of Object.entries(buttons)) {
    try {
      await button(new Pressed(open));
      found[name] = "yes";
    } catch (error) {
      found[name] = `FAILED: ${(error as Error).stack}`;
    }
  }
  console.log(JSON.stringify(found));
  process.exit();
}
