// What the client does, case by case: `tsx client.ts CASE SASH` prints what it saw as JSON. The tests say what is right.
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { collect, events, Sash, SashError, through, type Message } from "./sash.ts";

const [wanted = "", url = ""] = process.argv.slice(2);
const model = "gpt-4o-mini";
const question = { role: "user", content: "is there a talk?" };
const sash = new Sash(url, { waitsMs: [10, 10], timeoutMs: 5000 });

/** A provider that streams these texts as they are, and then ends, or waits until the reader goes away. */
async function provider(pieces: string[], end: "ends" | "waits" | "breaks" = "ends") {
  const left: Promise<void>[] = [];
  const server = createServer((_, response: ServerResponse) => {
    left.push(new Promise((resolve) => response.on("close", resolve)));
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const piece of pieces) response.write(piece);
    if (end === "ends") response.end();
    if (end === "breaks") setTimeout(() => response.destroy(), 100);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return { base, left: () => Promise.all(left), close: () => server.close() };
}

function body(...pieces: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
}

const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
const called = (index: number, id: string | undefined, name: string | undefined, piece: string) =>
  chunk({ tool_calls: [{ index, ...(id && { id, type: "function" }), function: { ...(name && { name }), arguments: piece } }] });
const typed = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const CALLS = [
  chunk({ role: "assistant", content: "", refusal: null }),
  chunk({ reasoning_content: "hm" }),
  chunk({ content: "I " }),
  chunk({ content: "look." }),
  called(0, "c1", "find_talk", ""),
  called(1, "c2", "find_room", '{"room"'),
  called(0, undefined, undefined, '{"topic": 1}'),
  called(1, undefined, undefined, ": 2}"),
];

async function reading(conversation: string, base: string, path: string, pieces: number): Promise<string> {
  const init = { method: "POST", body: JSON.stringify({ model, stream: true, [path === "responses" ? "input" : "messages"]: [question] }) };
  const answer = await through(sash, conversation, { reserve: 500 })(`${base}/${path}`, init);
  const reader = answer.body!.getReader();
  let text = "";
  for (let number = 0; number < pieces; number++) text += new TextDecoder().decode((await reader.read()).value);
  await reader.cancel();
  return text;
}

const cases: Record<string, () => Promise<unknown>> = {
  /** Each cut of a stream in two gives the same events. */
  async events() {
    const bytes = new TextEncoder().encode(": hi\r\n\r\nevent: a\r\ndata: é1\r\ndata: 2\r\n\r\ndata:3\n\n\rdata: 4\r\rdata: 5");
    const seen = new Set<string>();
    for (let cut = 0; cut <= bytes.length; cut++) {
      const found: string[][] = [];
      for await (const { event, data } of events(body(bytes.slice(0, cut), bytes.slice(cut)))) if (data) found.push([event, data]);
      seen.add(JSON.stringify(found));
    }
    return [...seen].map((each) => JSON.parse(each));
  },
  /** A stream of pieces of texts and calls is one message. */
  async collects() {
    const texts: string[] = [];
    const pieces = [...CALLS, chunk({}, "tool_calls"), 'data: {"choices": [], "usage": {}}\n\n', "data: [DONE]\n\n"];
    const whole = await collect(new Response(pieces.join("")), (text) => texts.push(text));
    const why = async (text: string, init?: ResponseInit) => collect(new Response(text, init)).catch((error) => error.message);
    return {
      whole,
      texts: texts.join(""),
      ended: await why(CALLS.join("")),
      failed: await why('data: {"error": {"message": "overloaded"}}\n\n'),
      refused: await why("no", { status: 400 }),
    };
  },
  /** One append, through whatever is at the URL. */
  async append() {
    const stored = await sash.append("ts-1", [question, { message: { role: "user", content: "or two?" }, pinned: true }]);
    return stored.messages.map(({ seq, duplicate }) => [seq, duplicate]);
  },
  async refused() {
    const told: unknown[] = [];
    for (const call of [
      () => sash.append("ts-2", [{ role: "narrator", content: "x" }]),
      () => sash.turn("ts-2", [question], { model: "gtp-4o-mini" }),
      () => sash.turn("ts-2", [question], { model, max_tokens: 1 }),
      () => sash.create({ id: "ts-2" }),
    ]) {
      told.push(await call().catch((error) => [error instanceof SashError, error.status, error.problem.type]));
    }
    return told;
  },
  /** Calls of a chat turn, with their types. */
  async turn() {
    await sash.create({ id: "ts 3".replace(" ", "-"), system: "You know the programme." });
    const first = await sash.turn("ts-3", [{ ...question, id: "q-1" }], { model, stable: "auto" });
    await sash.append("ts-3", [{ role: "assistant", content: "Yes." }]);
    const other = await sash.turn("ts-3", [{ role: "user", content: "no" }], { model, after_seq: "id:q-1" });
    await sash.usage("ts-3", { model, window_tokens: other.tokens.total, prompt_tokens: other.tokens.total });
    const page = await sash.messages("ts-3", { order: "desc", limit: 1 });
    const window = await sash.window("ts-3", { model, limit: 1 });
    await sash.call("DELETE", "/conversations/ts-3");
    return {
      first: first.request["messages"].length,
      other: other.request["messages"].map(({ content }: Message) => content),
      page: [page.messages[0]?.seq, page.next_cursor !== null],
      window: window.kept.messages,
    };
  },
  /** A reply is stored as it comes; its end is refused after another request has regenerated it. */
  async continued() {
    const reply = { id: "r-1", role: "assistant" } as const;
    await sash.append("ts-9", [{ ...question, id: "q-1" }, { ...reply, content: "", status: "in_progress" }]);
    await sash.append("ts-9", [{ ...reply, content: "Yes", status: "in_progress", continues: true }]);
    await sash.append("ts-9", [{ role: "assistant", content: "No." }], { after_seq: "id:q-1" });
    const end = sash.append("ts-9", [{ ...reply, content: "Yes.", status: "completed", continues: true }]);
    const refused = await end.catch((error) => [error.status, error.problem.type]);
    return { refused, stored: (await sash.messages("ts-9")).messages.map(({ message }) => message["content"]) };
  },
  /** A reader that goes away, a stream that breaks, and one that ends early leave what came. */
  async interrupted() {
    const waits = await provider(CALLS, "waits");
    await reading("ts-4", waits.base, "chat/completions", 6);
    await waits.left();
    const breaks = await provider(CALLS, "breaks");
    const broken = await reading("ts-5", breaks.base, "chat/completions", 99).catch((error) => error.name);
    const early = await provider(CALLS.slice(0, 4));
    const ended = await reading("ts-6", early.base, "chat/completions", 99).catch((error) => error.message);
    const item = { id: "fc_1", type: "function_call", call_id: "c1", name: "find_talk", arguments: "{}", status: "completed" };
    const items = await provider(
      [
        typed("response.output_item.done", { output_index: 0, item }),
        typed("response.output_text.delta", { output_index: 1, item_id: "msg_1", content_index: 0, delta: "I " }),
        typed("response.output_text.delta", { output_index: 1, item_id: "msg_1", content_index: 0, delta: "look" }),
      ],
      "waits",
    );
    await reading("ts-7", items.base, "responses", 3);
    for (const each of [waits, breaks, early, items]) each.close();
    const stored = async (conversation: string) => (await sash.messages(conversation)).messages;
    return { broken, ended, stored: await Promise.all(["ts-4", "ts-5", "ts-6", "ts-7"].map(stored)) };
  },
  /** The end comes after the reply is stored, and a retry of the same request stores its question once. */
  async held() {
    const whole = await provider([...CALLS.slice(0, 4), chunk({}, "stop"), "data: [DONE]\n\n"]);
    const asks = through(sash, "ts-8", { reserve: 500 });
    const init = { method: "POST", body: JSON.stringify({ model, stream: true, messages: [question] }) };
    const failed = await asks("http://127.0.0.1:9/v1/chat/completions", init).catch((error) => error.name);
    const reader = (await asks(`${whole.base}/chat/completions`, init)).body!.getReader();
    let text = "";
    while (!text.includes('"stop"')) text += new TextDecoder().decode((await reader.read()).value);
    const { messages } = await sash.messages("ts-8");
    const passed = await asks(`${whole.base}/embeddings`, { method: "POST", body: "{}" });
    await passed.body?.cancel();
    whole.close();
    return { failed, stored: messages.map(({ message }) => message), done: text.includes("[DONE]"), passed: passed.status };
  },
  /** A reply that another request takes away while it streams does not come back; before, its text grows in the log. */
  async rewound() {
    const slow = await provider(CALLS, "waits");
    const init = { method: "POST", body: JSON.stringify({ model, stream: true, messages: [question] }) };
    const reader = (await through(sash, "ts-11")(`${slow.base}/chat/completions`, init)).body!.getReader();
    await reader.read();
    const status = (await sash.messages("ts-11")).messages.map((each) => each.status ?? "");
    await sash.append("ts-11", [{ role: "user", content: "never mind" }], { after_seq: 0 });
    await reader.cancel();
    await slow.left();
    slow.close();
    const { messages } = await sash.messages("ts-11");
    return { status, stored: messages.map(({ message }) => message["content"]) };
  },
  /** A conversation is followed to its end; each event makes the next change. */
  async follows() {
    await sash.append("ts-9", [question]);
    const seen: unknown[] = [];
    for await (const { type, version, messages } of sash.follow("ts-9", { after: 0, body: true })) {
      seen.push([type, version, messages?.map(({ seq, entry }) => [seq, entry?.message.content])]);
      if (version === 1) await sash.append("ts-9", [{ role: "assistant", content: "yes" }, question]);
      if (version === 2) await sash.call("POST", "/conversations/ts-9/rewind", {}, { to_seq: 1 });
      if (version === 3) await sash.call("DELETE", "/conversations/ts-9");
    }
    return seen;
  },
  /** A stream that ends is opened again behind the last event; a refusal ends it. */
  async comes_back() {
    const asked: unknown[] = [];
    const server = createServer((request, response: ServerResponse) => {
      asked.push([request.url, request.headers["last-event-id"] ?? ""]);
      if (asked.length === 4) {
        response.writeHead(401, { "Content-Type": "application/problem+json" });
        response.end(JSON.stringify({ detail: "revoked", status: 401 }));
        return;
      }
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write(`:\n\nretry: 10\n\n`);
      const data = JSON.stringify({ type: "appended", version: asked.length, messages: [] });
      if (asked.length < 3) response.write(`event: appended\nid: ${asked.length}-life\ndata: ${data}\n\n`);
      setTimeout(() => (asked.length === 2 ? response.destroy() : response.end()), 20);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const far = new Sash(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const versions: unknown[] = [];
    let refused = 0;
    try {
      for await (const { version } of far.follow("c-1", { after: 0 })) versions.push(version);
    } catch (error) {
      refused = (error as SashError).status;
    }
    server.close();
    return { asked, versions, refused };
  },
  /** A signal ends an owner's stream. */
  async sidebar() {
    await sash.create({ id: "ts-10", owner: "ts", metadata: { title: "one" } }).catch(() => undefined);
    const stop = new AbortController();
    const seen: unknown[] = [];
    for await (const { type, conversations, conversation_id } of sash.followOwner("ts", { signal: stop.signal })) {
      seen.push([type, conversations?.map(({ id }) => id) ?? conversation_id]);
      if (type === "listed") await sash.append("ts-10", [question]);
      else stop.abort();
    }
    return seen;
  },
};

console.log(JSON.stringify(await cases[wanted]!()));
process.exit();
