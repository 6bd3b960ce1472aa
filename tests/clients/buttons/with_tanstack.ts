// TanStack AI's own chat: `SASH_URL=… tsx with_tanstack.ts`.
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { press, sash, type Tab, url } from "./presses.ts";

/** A tab with TanStack's client, whose page has a field for each question. */
class Chat implements Tab {
  readonly name: string;
  client: ChatClient;
  failed = false;

  constructor(name: string) {
    this.name = name;
    this.client = this.made([]);
  }
  made(initialMessages: any[]): ChatClient {
    const connection = fetchServerSentEvents(url);
    return new ChatClient({ connection, threadId: this.name, initialMessages, onError: () => void (this.failed = true) });
  }
  get texts(): string[] {
    const shown = this.client.getMessages().filter(({ parts }) => parts.length);
    return shown.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.content : "")).join(""));
  }
  async send(text: string): Promise<void> {
    await this.client.sendMessage(text);
  }
  async regenerate(): Promise<void> {
    await this.client.reload();
  }
  async edit(place: number, text: string): Promise<void> {
    const messages = this.client.getMessages();
    const asked = messages.filter(({ role }) => role === "user")[place]!;
    this.client.setMessagesManually([...messages.slice(0, messages.indexOf(asked)), { ...asked, parts: [{ type: "text", content: text }] }]);
    await this.client.reload();
  }
  stop(): void {
    this.client.stop();
  }
  async load(): Promise<void> {
    const { messages } = await sash.call("GET", `/conversations/${this.name}/messages`, { format: "ag-ui" });
    this.client = this.made(messages.map(({ id, role, content }: any) => ({ id, role, parts: [{ type: "text", content }] })));
  }
}

await press((name) => new Chat(name));
