// assistant-ui's own runtime, with its tree of messages: `SASH_URL=… tsx with_assistant_ui.ts`.
import { randomUUID } from "node:crypto";
import { LocalRuntimeCore } from "@assistant-ui/core/internal";
import { press, sash, type Tab, url } from "./presses.ts";
import { tree } from "./sash.ts";

const textOf = ({ content, parts }: any): string => (content ?? parts).map(({ text }: any) => text ?? "").join("");

/** A tab with assistant-ui's runtime, whose model is the backend. Its buttons are those of a thread and of its messages. */
class Chat implements Tab {
  readonly threadId: string;
  readonly runtime: LocalRuntimeCore;
  failed = false;

  constructor(threadId: string) {
    this.threadId = threadId;
    const run = this.run.bind(this);
    this.runtime = new LocalRuntimeCore({ adapters: { chatModel: { run } } } as never, undefined);
  }
  get thread(): any {
    return this.runtime.threads.getMainThreadRuntimeCore();
  }
  get texts(): string[] {
    return this.thread.messages.map(textOf).filter(Boolean);
  }
  async *run({ messages, abortSignal: signal }: any): AsyncGenerator<any> {
    const sent = messages.filter(({ status }: any) => status?.type !== "running").map((each: any) => ({ id: each.id, role: each.role, content: textOf(each) }));
    const body = JSON.stringify({ threadId: this.threadId, runId: randomUUID(), messages: sent });
    const response = await fetch(url, { method: "POST", body, signal });
    if (!response.ok) throw new Error(`${response.status}`);
    let text = "";
    for (const line of (await response.text()).split("\n")) {
      if (line.startsWith("data: ")) text += JSON.parse(line.slice(6)).delta ?? "";
    }
    yield { content: [{ type: "text", text }] };
  }
  async ask(content: string, parentId: string | null, sourceId: string | null = null): Promise<void> {
    const message = { role: "user", content: [{ type: "text", text: content }], attachments: [], metadata: { custom: {} }, createdAt: new Date() };
    await this.thread.append({ ...message, parentId, sourceId, runConfig: {} }).catch(() => void (this.failed = true));
  }
  async send(content: string): Promise<void> {
    await this.ask(content, this.thread.messages.at(-1)?.id ?? null);
  }
  async regenerate(): Promise<void> {
    const asked = this.thread.messages.findLast(({ role }: any) => role === "user");
    await this.thread.startRun({ parentId: asked.id, sourceId: this.thread.messages.at(-1).id, runConfig: {} });
  }
  async edit(place: number, content: string): Promise<void> {
    const asked = this.thread.messages.filter(({ role }: any) => role === "user")[place];
    await this.ask(content, this.thread.messages[this.thread.messages.indexOf(asked) - 1]?.id ?? null, asked.id);
  }
  stop(): void {
    this.thread.cancelRun();
  }
  async load(): Promise<void> {
    const { headId, messages } = await tree(sash, this.threadId);
    const shown = messages.map(({ parentId, message }) => {
      const its = { id: message.id, role: message.role, content: [{ type: "text", text: textOf(message) }], createdAt: new Date() };
      const rest = message.role === "user" ? { attachments: [] } : { status: { type: "complete", reason: "stop" } };
      return { parentId, message: { ...its, ...rest, metadata: { steps: [], custom: {} } } };
    });
    this.thread.import({ headId, messages: shown });
  }
}

await press((name) => new Chat(name));
