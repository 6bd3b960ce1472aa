// CopilotKit's own core: `SASH_URL=… tsx with_copilotkit.ts`.
import { randomUUID } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";
import { CopilotKitCore } from "@copilotkit/core";
import { from, type Observable } from "rxjs";
import { press, sash, type Tab, url } from "./presses.ts";

/** As assistant-ui.md has it: after a reload the thread is what the log has. */
class Kept extends HttpAgent {
  protected override connect(): Observable<any> {
    return from(sash.agUi(this.threadId));
  }
}

/** A tab with CopilotKit. Its buttons are those of `useCopilotChat`, which do this to the agent. */
class Chat implements Tab {
  readonly agent: Kept;
  readonly core: CopilotKitCore;
  failed = false;

  constructor(threadId: string) {
    this.agent = new Kept({ url, threadId, agentId: "default" });
    this.core = new CopilotKitCore({ agents__unsafe_dev_only: { default: this.agent as never } });
    this.core.subscribe({ onError: () => void (this.failed = true) });
  }
  get texts(): string[] {
    return this.agent.messages.map(({ content }) => String(content));
  }
  async run(): Promise<void> {
    await this.core.runAgent({ agent: this.agent as never });
  }
  async send(content: string): Promise<void> {
    this.agent.addMessage({ id: randomUUID(), role: "user", content });
    await this.run();
  }
  async regenerate(): Promise<void> {
    const last = this.agent.messages.findLastIndex(({ role }) => role === "user");
    this.agent.setMessages(this.agent.messages.slice(0, last + 1));
    await this.run();
  }
  async edit(place: number, content: string): Promise<void> {
    const asked = this.agent.messages.filter(({ role }) => role === "user")[place]!;
    const before = this.agent.messages.slice(0, this.agent.messages.indexOf(asked));
    this.agent.setMessages([...before, { ...asked, content } as typeof asked]);
    await this.run();
  }
  stop(): void {
    this.core.stopAgent({ agent: this.agent as never });
  }
  async load(): Promise<void> {
    this.agent.setMessages([]);
    await this.core.connectAgent({ agent: this.agent as never });
  }
}

await press((name) => new Chat(name));
