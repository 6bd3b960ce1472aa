// What a chat page's buttons do to the log: the AI SDK's own chat, and a route that agrees: `tsx buttons.ts SASH`.
import {
  AbstractChat,
  createUIMessageStream,
  createUIMessageStreamResponse,
  DefaultChatTransport,
  readUIMessageStream,
  type ChatState,
  type ChatStatus,
  type UIMessage,
} from "ai";
import { resume, Sash } from "./sash.ts";

const sash = new Sash(process.argv[2]!, { waitsMs: [10, 10], timeoutMs: 5000 });
const model = "gpt-4o-mini";
let replies = 0;
let fails = false;
const windows: string[][] = [];

/** The route: the log agrees with the page's chat and begins a reply, in one step; then a model answers. */
const route = async (_: unknown, init?: RequestInit): Promise<Response> => {
  if (init?.method !== "POST") return resume(sash, "buttons", { patienceMs: 5000 });
  const { messages } = JSON.parse(String(init.body));
  const id = `R${++replies}`;
  const begun = { id, role: "assistant", parts: [], status: "in_progress" };
  const { window } = await sash.agree("buttons", [...messages, begun], { format: "ui", model });
  windows.push(window!.request["messages"].map((each: { content: string }) => each.content));
  const end = (content: string, status: "completed" | "interrupted") =>
    sash.append("buttons", [{ id, message: { role: "assistant", content }, status, continues: true }]);
  if (fails) {
    await end("", "interrupted");
    return new Response("the model failed", { status: 500 });
  }
  const stream = createUIMessageStream({
    generateId: () => id,
    async execute({ writer }) {
      writer.write({ type: "start-step" });
      writer.write({ type: "text-start", id: "t" });
      writer.write({ type: "text-delta", id: "t", delta: `answer ${replies}` });
      writer.write({ type: "text-end", id: "t" });
      writer.write({ type: "finish-step" });
      await end(`answer ${replies}`, "completed");
    },
  });
  return createUIMessageStreamResponse({ stream });
};

class State implements ChatState<UIMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined = undefined;
  messages: UIMessage[];
  constructor(messages: UIMessage[]) {
    this.messages = messages;
  }
  pushMessage = (message: UIMessage) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index: number, message: UIMessage) => void (this.messages = this.messages.map((each, place) => (place === index ? message : each)));
  snapshot = <T>(thing: T): T => structuredClone(thing);
}

class Page extends AbstractChat<UIMessage> {
  constructor(messages: UIMessage[] = []) {
    super({ id: "buttons", state: new State(messages), transport: new DefaultChatTransport({ fetch: route as typeof fetch }), onError: () => {} });
  }
}

const history = async (): Promise<UIMessage[]> =>
  (await sash.call("GET", "/conversations/buttons/messages", { format: "ui" })).messages;
const words = (messages: UIMessage[]) =>
  messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join(""));
const seen: Record<string, unknown> = {};
/** What stands on the page and in the log, once a button was pressed. */
const press = async (name: string, pressed: Promise<unknown>) => {
  await pressed;
  seen[name] = [words(page.messages), words(await history())];
};

let page = new Page();
await press("send", page.sendMessage({ text: "one" }));
await press("send again", page.sendMessage({ text: "two" }));
await press("regenerate", page.regenerate());
fails = true;
await press("fail", page.sendMessage({ text: "three" }));
fails = false;
await press("retry", page.regenerate());
await press("edit the last", page.sendMessage({ text: "four", messageId: page.messages.at(-2)!.id }));
page = new Page(await history());
await press("reload and send", page.sendMessage({ text: "five" }));
await press("edit the first", page.sendMessage({ text: "one more", messageId: page.messages[0]!.id }));

// A page that is loaded anew finds the reply in progress, from the half reply in the log.
const begun = { id: "half", message: { role: "assistant", content: "It is" }, status: "in_progress" as const };
await sash.append("buttons", [{ role: "user", content: "and?" }, begun]);
page = new Page(await history());
const resumed = page.resumeStream();
setTimeout(() => sash.append("buttons", [{ ...begun, message: { role: "assistant", content: "It is at" }, continues: true }]), 200);
const whole = { role: "assistant", content: "It is at noon." };
setTimeout(() => sash.append("buttons", [{ ...begun, message: whole, status: "completed", continues: true }]), 600);
await press("resume", resumed);
seen["ids"] = [page.messages.map(({ id }) => id).slice(-2), (await history()).map(({ id }) => id).slice(-2)];
seen["status"] = page.status;
seen["nothing to resume"] = (await route("", {})).status;
const none = await new DefaultChatTransport({ fetch: route as typeof fetch }).reconnectToStream({ chatId: "buttons" });
seen["none"] = none === null ? null : readUIMessageStream({ stream: none }) !== undefined;
seen["windows"] = windows;
console.log(JSON.stringify(seen));
process.exit();
