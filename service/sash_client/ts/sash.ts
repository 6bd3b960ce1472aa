/**
 * Sash's client in one file, without dependencies, for Node 20 and later, Deno, Bun, workers and browsers.
 *
 * It has the types of a chat turn's calls, sends requests again that fail temporarily, reads providers' streams, and has
 * a `fetch` for SDKs that keeps their chats in Sash. A running service has it at /clients/sash.ts.
 */

/** A provider's form. The file that a service sends lists the forms that it knows. */
export type Format = string;
export type Status = "in_progress" | "completed" | "interrupted";

/** A chat message; with `format`, a message or an item of that provider. */
export interface Message {
  role?: string;
  content?: any;
  [member: string]: any;
}

/** A retrieved text, which may have shorter ones, or `levels` from the longest to the shortest. */
export interface Document {
  id?: string;
  text?: string;
  short?: string;
  levels?: string[];
  title?: string;
  url?: string;
  metadata?: Record<string, unknown>;
}

/** What stands beside a message. An entry that is sent again under its `id` is stored once. */
export interface Envelope {
  id?: string;
  grounding?: { documents: Document[] };
  pinned?: boolean;
  sent?: boolean;
  metadata?: Record<string, unknown>;
  status?: Status;
  /** Only continue or end the reply in progress with this id; 410 `reply-gone` if a rewind or an erasure took it away. */
  continues?: boolean;
  image_sizes?: [number, number][];
  /** The agent that the message is of, where several share a conversation. */
  author?: string;
  /** The agents whose views have it, beside its author's; without it, all have it. */
  audience?: string[];
  /** The receipt of the window that this reply answered. */
  receipt?: string;
}

/** A message with its envelope. The items of one reply may be a list. */
export interface Entry extends Envelope {
  message: Message | Message[];
}

/** A window's parameters. README has their meanings and defaults. */
export interface WindowQuery {
  model?: string;
  reserve?: number;
  max_tokens?: number;
  limit?: number;
  turns?: number;
  overflow?: "stop" | "skip";
  grounding?: "latest" | "all" | "none";
  grounding_max_tokens?: number;
  grounding_overflow?: "trim" | "whole" | "drop" | "error";
  dedupe?: "grounding" | "messages" | "none";
  stable?: boolean | "auto";
  stable_step?: number;
  start?: "any" | "user";
  summary?: "auto" | "never" | "always";
  recall_max_tokens?: number;
  recall_query?: string;
  note?: boolean;
  reasoning?: "turn" | "all" | "none";
  tool_result_max_tokens?: number;
  tool_results_kept?: number;
  tool_result_overflow?: "trim" | "error";
  images_kept?: number;
  unanswered?: "note" | "drop";
  uncarried?: "error" | "drop";
  history_tools?: boolean;
  cache?: "none" | "auto";
  price?: "none" | "auto";
  explain?: boolean;
  view?: string;
  format?: Format;
}

/**
 * `after_seq` replaces the messages after that one, in the same step: its seq, or `id:` and its own id. They become a branch, or are
 * gone with `forget`.
 */
export interface AppendQuery extends WindowQuery {
  after_seq?: number | `id:${string}`;
  forget?: boolean;
}

/** What the list is: the whole chat, its end, or what stands behind a message. The messages' form may be a screen's. */
export interface AgreeQuery extends Omit<AppendQuery, "format"> {
  list?: "whole" | "end";
  format?: Format | "ui" | "ag-ui";
}

/** What the log had to become. */
export interface Agreed {
  conversation_id: string;
  version: number;
  etag: string;
  agreed: number;
  messages: { seq: number; id: string; duplicate: boolean }[];
  /** What the log had in place of what is new; null where nothing was replaced. */
  branch?: { id: string; after_seq: number; messages: number } | null;
  ignored: string[];
  waiting_for?: string[];
  window?: Window | null;
  window_error?: Problem;
  [member: string]: unknown;
}

/** A window. `request` is what the provider's SDK takes beside the model. */
export interface Window {
  conversation_id: string;
  version: number;
  model: string;
  format: Format;
  exact: boolean;
  budget: number;
  request: Record<string, any>;
  tokens: { total: number; [part: string]: number };
  kept: { messages: number; first_seq: number | null; last_seq: number | null };
  stop_reason: string;
  /** The window's name: `sash.again` gives the same bytes. A window that is not stored has none. */
  receipt?: string;
  waiting_for?: string[];
  [figure: string]: unknown;
}

/** What changed from one window to another. */
export interface WindowDiff {
  conversation_id: string;
  parts: string[];
  messages: {
    seq: number;
    role: string;
    change: "added" | "left_out" | "changed" | "moved";
    tokens_from: number | null;
    tokens_to: number | null;
  }[];
  unchanged: number;
  cache: { is_broken: boolean; part: string | null; message: number | null; byte: number | null; tokens_in_common: number };
  [figure: string]: unknown;
}

/** What the provider billed, with the window's `receipt` or its `tokens.total` as `window_tokens`. */
export type Bill = { model: string; [figure: string]: unknown } & ({ receipt: string } | { window_tokens: number });

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail?: string;
  errors?: { pointer: string; detail: string }[];
  [figure: string]: unknown;
}

export interface Appended {
  conversation_id: string;
  version: number;
  etag: string;
  first_seq: number;
  last_seq: number;
  messages: { seq: number; id: string; duplicate: boolean; tokens: Record<string, number> }[];
  waiting_for?: string[];
  window?: Window | null;
  window_error?: Problem;
}

export interface Stored extends Envelope {
  seq: number;
  id: string;
  created_at: string;
  message: Message;
  own?: Message[] | null;
}

export interface Page {
  messages: Stored[];
  next_cursor: string | null;
}

/**
 * What a version changed: drop the messages after `to_seq`, if it is there, and those of `left_out`, then put each of `messages`
 * at its seq. `reset` says to read all anew; `unseen` that a view has nothing of it. An owner's stream begins with `listed`, which has no conversation_id and no version.
 */
export interface Change {
  type:
    | "appended"
    | "replaced"
    | "rewound"
    | "redacted"
    | "amended"
    | "settings"
    | "summary"
    | "branches"
    | "unseen"
    | "reset"
    | "erased"
    | "left"
    | "listed";
  conversation_id?: string;
  version?: number;
  to_seq?: number;
  messages?: { seq: number; id: string; role: string; entry?: Stored }[];
  left_out?: number[];
  /** The summary is gone, because it covered a message that was redacted, replaced or forgotten. */
  summary_removed?: boolean;
  conversation?: { id: string; version: number; [setting: string]: unknown };
  /** Of `listed`: whether the owner has older conversations. */
  more?: boolean;
  conversations?: { id: string; version: number; updated_at: string; metadata: Record<string, unknown> | null }[];
}

/** An event of AG-UI, as `@ag-ui/core` has it. */
export type AgUiEvent = { type: string; [member: string]: any };

export interface FollowOptions {
  /** The version that is known, or an ETag; without it the first event is `reset`. */
  after?: number | string;
  /** Give messages whole. */
  body?: boolean;
  /** The agent that the events are for. */
  view?: string;
  /** Ends the stream. */
  signal?: AbortSignal;
}

/**
 * The server refused a request: `status` and `problem` (RFC 9457) are its answer. Without an answer, `status` is 0.
 *
 * `problem` may be passed on to a browser with the `headers`: it names no address. The message names the server.
 */
export class SashError extends Error {
  readonly status: number;
  readonly problem: Partial<Problem> & Pick<Problem, "type" | "title" | "status">;
  readonly retryAfter: number | undefined;

  constructor(status: number, problem: Partial<Problem>, message?: string, retryAfter?: number) {
    super(message ?? problem.detail ?? problem.title ?? `HTTP ${status}`);
    this.name = "SashError";
    this.status = status;
    this.problem = { type: "about:blank", title: "The request failed", status: status || 503, ...problem };
    this.retryAfter = retryAfter;
  }

  /** The headers of an answer that passes `problem` on. */
  get headers(): Record<string, string> {
    const headers: Record<string, string> = { "Content-Type": "application/problem+json" };
    if (this.retryAfter !== undefined) headers["Retry-After"] = String(this.retryAfter);
    return headers;
  }
}

export interface Options {
  apiKey?: string;
  /** How long to wait for an answer, for each attempt. */
  timeoutMs?: number;
  /** Pauses before the second and later attempts. */
  waitsMs?: number[];
}

interface Attempt {
  value?: any;
  error?: SashError;
  pause?: number | undefined;
}

const PASSING = [408, 429, 502, 503, 504];
const LONGEST_WAIT_MS = 10_000;
/** The longest silence of a stream of events: three heartbeats. */
const SILENT_MS = 45_000;
const FOREIGN = {
  type: "/problems/foreign-answer",
  title: "Another program answered in place of Sash",
  status: 502,
  detail: "The answer is no JSON of Sash: the URL may be of another server.",
};
const UNREACHABLE = {
  type: "/problems/unreachable",
  title: "Sash does not answer",
  status: 503,
  detail:
    "The service that stores the chat does not answer: send the request again after Retry-After seconds, with the same ids.",
};

/** One server. A request that fails temporarily is sent again, with the same ids, so that it is stored once. */
export class Sash {
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;
  readonly #waitsMs: number[];

  constructor(url = "http://127.0.0.1:8000", options: Options = {}) {
    this.url = url.replace(/\/+$/, "");
    this.#headers = { "Content-Type": "application/json" };
    if (options.apiKey) this.#headers["Authorization"] = `Bearer ${options.apiKey}`;
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#waitsMs = options.waitsMs ?? [100, 500, 2000];
  }

  /** Create a conversation with settings such as `system`, `tools` and `owner`. One that exists is a SashError, 409. */
  async create(settings: Record<string, unknown> = {}): Promise<{ id: string; version: number; [setting: string]: unknown }> {
    return ours(await this.call("POST", "/conversations", {}, settings), "created_at");
  }

  /** Append up to 100 messages or entries, all or none. An entry without an id gets one. */
  async append(conversation: string, messages: readonly (Message | Entry)[], query: AppendQuery = {}): Promise<Appended> {
    const entries = messages.map((each) => entry(each, query.format ?? "openai"));
    return ours(await this.call("POST", `${path(conversation)}/messages`, query, { messages: entries }), "conversation_id");
  }

  /**
   * Make the log agree with the chat as its user sees it: what agrees stays, what differs goes, what is new is appended. With
   * `format: "ui"` the messages are those of `useChat`. A reply without words and with the status `in_progress`, at the end, is
   * begun.
   */
  async agree(conversation: string, messages: readonly object[], query: AgreeQuery = {}): Promise<Agreed> {
    return ours(await this.call("PUT", `${path(conversation)}/messages`, query, { messages }), "conversation_id");
  }

  /** Append messages and return the window to send. A window that cannot be made is a SashError; the messages are stored. */
  async turn(conversation: string, messages: readonly (Message | Entry)[], query: AppendQuery = {}): Promise<Window> {
    const asked = { explain: false, ...query }; // any parameter asks for a window, also of the conversation's model
    return windowOf(await this.append(conversation, messages, asked));
  }

  /** The window of what is stored. */
  async window(conversation: string, query: WindowQuery = {}): Promise<Window> {
    return ours(await this.call("GET", `${path(conversation)}/window`, query), "conversation_id");
  }

  /** A page of the history. */
  async messages(
    conversation: string,
    query: { order?: "asc" | "desc"; limit?: number; cursor?: string; format?: Format; view?: string } = {},
  ): Promise<Page> {
    return ours(await this.call("GET", `${path(conversation)}/messages`, query), "messages");
  }

  /** A conversation's changes as they come, each version's once and in order, over lost connections; ends when it is erased. */
  follow(conversation: string, options: FollowOptions = {}): AsyncGenerator<Change> {
    const { signal, ...query } = options;
    return this.#changes(`${path(conversation)}/events`, query, signal);
  }

  /** The changes of all of an owner's conversations, for a sidebar. The first is `listed`, and says what there is. */
  followOwner(owner: string, options: { signal?: AbortSignal } = {}): AsyncGenerator<Change> {
    return this.#changes(`/owners/${encodeURIComponent(owner)}/events`, {}, options.signal);
  }

  /**
   * A conversation as AG-UI's events: its messages, and with `live` what is new as it comes. A thread that does not exist is empty.
   *
   * An agent's `connect` is `from(sash.agUi(threadId))`, and so CopilotKit shows the thread after a reload.
   */
  async *agUi(conversation: string, options: { live?: boolean; signal?: AbortSignal } = {}): AsyncGenerator<AgUiEvent> {
    const run = { threadId: conversation, runId: `${conversation}-events` };
    const signal = options.signal ?? new AbortController().signal;
    let response: Response;
    try {
      response = await this.#open(`${path(conversation)}/events`, { format: "ag-ui" }, "", signal);
    } catch (error) {
      if (!(error instanceof SashError) || error.status !== 404) throw error;
      yield* [{ type: "RUN_STARTED", ...run }, { type: "MESSAGES_SNAPSHOT", messages: [] }, { type: "RUN_FINISHED", ...run }];
      return;
    }
    const open = new Set<string>();
    for await (const { data } of events(response.body!)) {
      if (!data) continue;
      const event: AgUiEvent = JSON.parse(data);
      yield event;
      if (event.type === "TEXT_MESSAGE_START") open.add(event["messageId"]);
      if (event.type === "TEXT_MESSAGE_END") open.delete(event["messageId"]);
      if (!options.live && event["name"] === "sash.version") break;
      if (event.type === "RUN_FINISHED") return;
    }
    for (const messageId of open) yield { type: "TEXT_MESSAGE_END", messageId };
    yield { type: "RUN_FINISHED", ...run };
  }

  async *#changes(path: string, query: object, signal?: AbortSignal): AsyncGenerator<Change> {
    const isConversation = path.startsWith("/conversations/");
    let last = "";
    let pause = 1000;
    for (let failures = 0; !signal?.aborted; failures++) {
      let asked = 0;
      const silence = new Silence(signal);
      try {
        const response = await this.#open(path, query, last, silence.signal);
        for await (const event of events(response.body!)) {
          silence.broken();
          failures = 0;
          pause = Number(fields(event.raw, "retry").at(-1) ?? pause);
          if (!event.data) continue;
          last = fields(event.raw, "id").at(-1) || last;
          const change: Change = JSON.parse(event.data);
          yield change;
          if (change.type === "erased" && isConversation) return;
        }
      } catch (error) {
        if (signal?.aborted) return;
        if (error instanceof SashError) {
          if (last && error.problem.type === "/problems/not-found" && error.problem["instance"] === path) {
            yield { type: "erased", conversation_id: decodeURIComponent(path.split("/")[2]!), version: 0 };
            return;
          }
          if (!PASSING.includes(error.status)) throw error;
          asked = 1000 * (error.retryAfter ?? 0);
        }
      } finally {
        silence.end();
      }
      const longest = Math.min(LONGEST_WAIT_MS, pause * 2 ** Math.min(failures, 4));
      const wait = Math.max(asked, longest * (0.5 + Math.random() / 2)); // not the same for all who were cut at once
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  /** Open a stream. Throws SashError where the answer is none. */
  async #open(path: string, query: object, last: string, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { ...this.#headers };
    if (last) headers["Last-Event-ID"] = last;
    const response = await fetch(`${this.url}${path}${searchOf(query)}`, { headers, redirect: "error", signal });
    if (response.ok && response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
    throw refusal(response, json(await response.text()));
  }

  /** The window of a receipt again, with the same bytes; 410 `receipt-gone` with the reason if it cannot be made. */
  again(conversation: string, receipt: string): Promise<Window> {
    return this.call("GET", `${path(conversation)}/window`, { receipt });
  }

  /** What changed between the windows of two receipts, and where a prompt cache broke; without `to`, up to the window now. */
  diff(conversation: string, from: string, to?: string): Promise<WindowDiff> {
    return this.call("GET", `${path(conversation)}/window/diff`, to === undefined ? { from } : { from, to });
  }

  /** Report what the provider billed, which corrects estimates. */
  usage(conversation: string, bill: Bill): Promise<unknown> {
    return this.call("POST", `${path(conversation)}/usage`, {}, bill);
  }

  /** Any call: the answer's JSON, undefined for 204. A path has its parts encoded. Throws SashError. */
  async call<T = any>(method: string, path: string, query: object = {}, body?: unknown, more: Record<string, string> = {}): Promise<T> {
    const url = `${this.url}${path}${searchOf(query)}`;
    const headers = { ...this.#headers, ...more };
    if (method !== "GET" && !path.endsWith("/messages")) headers["Idempotency-Key"] = crypto.randomUUID();
    const init: RequestInit = { method, headers, redirect: "error" }; // a redirected POST may become a GET
    if (body !== undefined) init.body = JSON.stringify(body);
    for (let attempt = 0; ; attempt++) {
      const wait = this.#waitsMs[attempt];
      const { value, error, pause } = await this.#once(url, init, wait);
      if (!error) return value;
      if (pause === undefined) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  /** One attempt: its answer, or its error with the pause before the next attempt; without a pause the error is final. */
  async #once(url: string, init: RequestInit, wait?: number): Promise<Attempt> {
    let response: Response;
    let text: string;
    try {
      response = await fetch(url, { ...init, signal: AbortSignal.timeout(this.#timeoutMs) });
      text = await response.text();
    } catch (cause) {
      const message = `${this.url} does not answer (${why(cause)}). Is the server running there?`;
      return { error: new SashError(0, UNREACHABLE, message, 2), pause: wait };
    }
    if (response.status === 204) return {};
    const value = json(text);
    if (response.ok && value) return { value };
    return { error: refusal(response, value), pause: pauseOf(response, wait) };
  }
}

/** Aborts a stream that is silent for too long, or whose reader's own signal says so. */
class Silence {
  readonly signal: AbortSignal;
  readonly #stop = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(own?: AbortSignal) {
    this.signal = own ? AbortSignal.any([own, this.#stop.signal]) : this.#stop.signal;
    this.broken();
  }

  broken(): void {
    this.end();
    this.#timer = setTimeout(() => this.#stop.abort(), SILENT_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

function refusal(response: Response, value: any): SashError {
  const asked = response.headers.get("retry-after") ?? "";
  const problem = !response.ok && value?.detail ? value : FOREIGN;
  return new SashError(response.status, problem, undefined, /^\d+$/.test(asked) ? Number(asked) : undefined);
}

/** An answer that has the member which each of Sash's has; another program's server may answer with other JSON. */
function ours(answer: any, member: string): any {
  if (answer?.[member] === undefined) throw new SashError(200, FOREIGN);
  return answer;
}

/** The query string of the values that are given, with its question mark. */
function searchOf(query: object): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const search = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])).toString();
  return search && `?${search}`;
}

function path(conversation: string): string {
  return `/conversations/${encodeURIComponent(conversation)}`;
}

/** The entry of a message. `id` and the others beside the role of a chat message are the entry's; an item has its own. */
function entry(given: Message | Entry, form: Format): object {
  if ("message" in given) return { id: crypto.randomUUID(), ...given };
  return form === "openai" ? { id: crypto.randomUUID(), ...given } : { id: crypto.randomUUID(), message: given };
}

/** How long to wait before the next attempt, as the answer says; undefined if the answer is final. */
function pauseOf(response: Response, wait?: number): number | undefined {
  const asked = response.headers.get("retry-after") ?? "";
  if (wait === undefined) return undefined;
  if (!/^\d+$/.test(asked)) return PASSING.includes(response.status) ? wait : undefined;
  return Number(asked) * 1000 > LONGEST_WAIT_MS ? undefined : Math.max(wait, Number(asked) * 1000);
}

function why(error: any): string {
  return error?.cause?.code ?? error?.cause?.message ?? error?.message ?? String(error);
}

function json(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A server-sent event, and its text as it came. */
export interface StreamEvent {
  event: string;
  data: string;
  raw: string;
}

const BLANK_LINE = /(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))/;

/** The server-sent events of a body, each when it is whole. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent> {
  const reader = body.getReader();
  try {
    yield* eventsOf(reader);
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function* eventsOf(reader: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder();
  let text = "";
  for (let done = false; !done; ) {
    const read = await reader.read();
    done = read.done;
    text += read.value ? decoder.decode(read.value, { stream: true }) : `${decoder.decode()}\n\n`;
    for (let end = BLANK_LINE.exec(text); end; end = BLANK_LINE.exec(text)) {
      const raw = text.slice(0, end.index + end[0].length);
      text = text.slice(raw.length);
      if (raw.trim()) yield { event: fields(raw, "event").at(-1) ?? "message", data: fields(raw, "data").join("\n"), raw };
    }
  }
}

function fields(raw: string, name: string): string[] {
  const lines = raw.split(/\r\n|\n|\r/).filter((line) => line === name || line.startsWith(`${name}:`));
  return lines.map((line) => line.slice(name.length + 1).replace(/^ /, ""));
}

/** A reply of chat completions or Responses, collected from its stream. */
class Collected {
  /** Whether the reply's last event came. What follows is usage and the end of the stream. */
  ended = false;
  #message: Message = { role: "assistant" };
  #items: (Message | undefined)[] = [];
  #isItems = false;

  /** Take an event's data. Returns its piece of text. Throws if the provider says that the reply failed. */
  take(data: string): string {
    const event = json(data);
    if (!event) return "";
    if (event.error) throw new Error(event.error.message ?? data);
    return typeof event.type === "string" ? this.#takeItem(event) : this.#takeChunk(event);
  }

  /** The messages of the reply; of an interrupted one what is whole, and the text so far. */
  get messages(): Message[] {
    if (this.#isItems) return this.#items.filter((item): item is Message => item !== undefined);
    const { tool_calls, ...message } = this.#message;
    const calls = tool_calls?.map(({ index, ...call }: any) => call);
    const whole = calls?.filter((call: any) => this.ended || json(call.function?.arguments) !== undefined);
    if (whole?.length) return [{ ...message, content: message["content"] || null, tool_calls: whole }];
    return this.ended || message["content"] ? [{ ...message, content: message["content"] ?? "" }] : [];
  }

  #takeChunk(chunk: any): string {
    const choice = chunk.choices?.[0];
    if (!choice || choice.index > 0) return "";
    merge(this.#message, choice.delta ?? {});
    this.ended ||= choice.finish_reason != null;
    return choice.delta?.content ?? "";
  }

  #takeItem(event: any): string {
    this.#isItems = true;
    const at: number = event.output_index;
    switch (event.type) {
      case "response.output_text.delta": {
        const known = this.#items[at] ?? { role: "assistant", content: "" };
        this.#items[at] = { ...known, content: known.content + event.delta };
        return event.delta;
      }
      case "response.output_item.done":
        this.#items[at] = event.item;
        return "";
      case "response.completed":
      case "response.incomplete":
        this.#items = event.response.output;
        this.ended = true;
        return "";
      case "response.failed":
        throw new Error(event.response?.error?.message ?? "The provider says that the reply failed.");
      default:
        return "";
    }
  }
}

/** Add a delta: texts grow, lists are joined by their elements' `index`, and names and ids are set. */
function merge(into: any, delta: any): void {
  for (const [name, value] of Object.entries<any>(delta)) {
    if (value === null || value === undefined) continue;
    if (Array.isArray(value)) {
      into[name] ??= [];
      for (const each of value) {
        const known = into[name].find((other: any) => each?.index !== undefined && other?.index === each.index);
        if (known) merge(known, each);
        else into[name].push(structuredClone(each));
      }
    } else if (typeof value === "object") merge((into[name] ??= {}), value);
    else if (typeof value === "string" && !["id", "type", "role", "name"].includes(name)) into[name] = (into[name] ?? "") + value;
    else into[name] = value;
  }
}

/**
 * The messages of a streamed reply, whole; `onText` is called with each piece of text.
 *
 * Throws if the provider refuses the request, and if the stream ends before the reply.
 */
export async function collect(response: Response, onText: (text: string) => void = () => undefined): Promise<Message[]> {
  if (!response.ok || !response.body) throw new Error(`The provider answers ${response.status}: ${await response.text()}`);
  const reply = new Collected();
  for await (const { data } of events(response.body)) onText(reply.take(data));
  if (!reply.ended) throw new Error("The provider's stream ended before the reply.");
  return reply.messages;
}

/** What a `fetch` for SDKs sends: a window's parameters, and whether the request's messages are always the whole chat. */
export interface ThroughOptions extends WindowQuery {
  list?: "whole";
}

/**
 * A `fetch` for SDKs of OpenAI's form, which keeps their chat in a conversation: give it to `createOpenAI({ fetch })`.
 *
 * The log agrees with a request's chat, and the window is sent in place of all messages but the system's. A request without a
 * reply is new messages alone, unless `list` says that it is the whole chat; a tool loop's is the chat's end. A reply is begun in the log with
 * its question, in one step, and ended before the SDK sees its end, whole or streamed; a streamed text grows there every two
 * seconds. Of one that ends early what came is stored as `interrupted`. A reply that another request took away meanwhile is not
 * stored. Requests that are not to chat completions or Responses pass as they are.
 */
export function through(sash: Sash, conversation: string, options: ThroughOptions = {}): typeof fetch {
  return new Turns(sash, conversation, options).fetch;
}

/** The requests of an SDK about one conversation. */
class Turns {
  readonly sash: Sash;
  readonly conversation: string;
  readonly options: ThroughOptions;
  /** A reply that is begun already, and its window, for the next request. */
  begun: { id: string; window: Window } | undefined;
  /** Whether a reply, or a piece of one, was stored. */
  hasWords = false;
  /** The id of the reply in progress. */
  open: string | undefined;
  /** Whether `end` ends a reply of which nothing came. */
  isPages = false;
  readonly #unanswered = new Map<string, string[]>();

  constructor(sash: Sash, conversation: string, options: ThroughOptions) {
    this.sash = sash;
    this.conversation = conversation;
    this.options = options;
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    const form = /\/(chat\/completions|responses)(\?|$)/.exec(url)?.[1];
    if (!form || typeof init?.body !== "string") return fetch(input, init);
    return this.#ask(url, init, form === "responses" ? "responses" : "openai");
  };

  /** Store the end of the reply in progress, if one still is: nothing more comes of it. */
  async end(): Promise<void> {
    this.isPages = false;
    if (this.open) await this.#store(this.open, [], "interrupted", "openai").catch(() => undefined);
  }

  async #ask(url: string, init: RequestInit, form: "openai" | "responses"): Promise<Response> {
    const member = form === "openai" ? "messages" : "input";
    const { [member]: given, ...body } = JSON.parse(init.body as string);
    const chat: Message[] = typeof given === "string" ? [{ role: "user", content: given }] : given;
    const { id, window } = await this.#begin(chat, body.model, form);
    this.open = id;
    try {
      const { [member]: sent, ...fixed } = window.request;
      const request = { ...fixed, ...body, [member]: [...chat.filter(isSystem), ...sent] };
      const response = await fetch(url, { ...init, body: JSON.stringify(request) });
      if (!response.ok || !response.body) {
        await this.#fail(id, window, form);
        return response;
      }
      this.#unanswered.clear();
      const store = (messages: Message[], status: Status) => this.#store(id, messages, status, form);
      if (body.stream) return new Response(holding(response.body, store), head(response));
      const answer: any = await response.clone().json();
      await store(form === "openai" ? [answer.choices[0].message] : answer.output, "completed");
      return response;
    } catch (error) {
      await this.#fail(id, window, form).catch(() => undefined);
      throw error;
    }
  }

  /** Begin a reply to the chat of a request. */
  async #begin(chat: Message[], model: string, form: "openai" | "responses"): Promise<{ id: string; window: Window }> {
    if (this.begun) {
      const { begun } = this;
      this.begun = undefined;
      return begun;
    }
    const { list, ...given } = this.options;
    const query = { ...given, model: given.model ?? model, format: form };
    const begun = { id: crypto.randomUUID(), message: { role: "assistant", content: "" }, status: "in_progress" as const };
    const said = chat.filter((message) => !isSystem(message));
    if (!said.length) await this.sash.window(this.conversation, query); // it is there, or this is an error
    const place = said.map(isReply).lastIndexOf(true) + 1;
    const asked = said.slice(place);
    const isLoop = place > 0 && asked.length > 0 && !asked.some(({ role }) => role === "user");
    const isChat = list ?? (place > 0 && !said.some(({ type }) => type === "item_reference"));
    if (isChat) {
      const part = list ?? (isLoop ? "end" : undefined); // a loop's first message may be its question
      const entries = [...said.map((message) => ({ message })), begun];
      const agreed = await this.sash.agree(this.conversation, entries, part ? { ...query, list: part } : query);
      return { id: begun.id, window: windowOf(agreed) };
    }
    // An SDK that retries sends the same again, which is stored once if it has the same ids.
    const key = JSON.stringify(asked);
    const ids = this.#unanswered.get(key) ?? asked.map(() => crypto.randomUUID());
    this.#unanswered.set(key, ids);
    const entries = asked.map((message, at) => ({ id: ids[at]!, message }));
    return { id: begun.id, window: await this.sash.turn(this.conversation, [...entries, begun], query) };
  }

  /** The provider gave no reply. That of a page stays begun, as the SDK may ask again. */
  async #fail(id: string, window: Window, form: Format): Promise<void> {
    if (this.isPages) this.begun = { id, window };
    await this.#store(id, [], "interrupted", form);
  }

  async #store(id: string, messages: Message[], status: Status, form: Format): Promise<void> {
    if (messages.length) this.hasWords = true;
    else if (this.isPages && status === "interrupted") return;
    if (status !== "in_progress") this.open = undefined;
    const begun: Message = { role: "assistant", content: "" };
    const message = messages.length > 1 || form === "responses" ? messages : messages[0];
    const part = { id, message: messages.length ? message! : begun, status, continues: true };
    await this.sash.append(this.conversation, [part], { format: form }).catch((error) => {
      if (error.status !== 410) throw error; // another request took the reply away
    });
  }
}

/** The window of an answer, which has none where it cannot be made. */
function windowOf({ window, window_error }: { window?: Window | null; window_error?: Problem }): Window {
  if (window) return window;
  throw new SashError(window_error?.status ?? 0, window_error ?? { detail: "The answer has no window." });
}

function isSystem(message: Message): boolean {
  return message.role === "system" || message.role === "developer";
}

/** Whether a message is a model's: in Responses, all but what has another role or answers a call. */
function isReply(message: Message): boolean {
  return message.role ? message.role === "assistant" : !/_output$|_response$/.test(message["type"] ?? "");
}

function head({ status, statusText, headers }: Response): ResponseInit {
  const kept = [...headers].filter(([name]) => !["content-length", "content-encoding"].includes(name));
  return { status, statusText, headers: kept };
}

/** From one stored part of a streamed text to the next. */
const BEAT_MS = 2000;

/** A copy of a stream whose end is held back until the reply is stored. */
function holding(
  body: ReadableStream<Uint8Array>,
  store: (messages: Message[], status: Status) => Promise<void>,
): ReadableStream<Uint8Array> {
  const reply = new Collected();
  const encoder = new TextEncoder();
  const reader = body.getReader();
  const source = eventsOf(reader);
  let storing: Promise<void> | undefined;
  let growing: Promise<void> = Promise.resolve();
  let beaten = Date.now();
  const stored = () => (storing ??= growing.then(() => store(reply.messages, reply.ended ? "completed" : "interrupted")));
  const grow = () => {
    const { messages } = reply;
    if (Date.now() < beaten + BEAT_MS || messages.length !== 1 || typeof messages[0]!.content !== "string") return;
    beaten = Date.now();
    if (!messages[0]!["tool_calls"]) growing = growing.then(() => store(messages, "in_progress")).catch(() => undefined);
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      let held = "";
      try {
        for (let next = await source.next(); !next.done; next = await source.next()) {
          reply.take(next.value.data);
          held += next.value.raw;
          if (reply.ended) continue;
          grow();
          return controller.enqueue(encoder.encode(held));
        }
        if (!reply.ended) throw new Error("The provider's stream ended before the reply.");
      } catch (error) {
        await stored();
        throw error;
      }
      await stored();
      controller.enqueue(encoder.encode(held));
      controller.close();
    },
    async cancel() {
      await reader.cancel();
      await stored();
    },
  });
}

// ---- the routes of a page with the AI SDK's useChat

/** What a page's reply is made of. */
export interface Asked {
  /** The conversation. */
  chat: string;
  /** The page's messages. */
  messages: any[];
  /** The id that the page gives the reply: `generateMessageId`. */
  id: string;
  /** For the provider: it sends the window in place of the messages, and stores the reply. */
  fetch: typeof fetch;
  /** Aborts when the reply is stopped. */
  signal: AbortSignal;
}

/**
 * The routes of a page with `useChat`, of the AI SDK 6 or 7, at one path such as `/api/chat`. They know no users: ask who it is before.
 *
 * | request | does |
 * | --- | --- |
 * | `POST /api/chat` | the log agrees with the page's messages, and begins the reply that `answer` streams; who leaves does not end it |
 * | `GET /api/chat/{id}` | the history, oldest first, and `ways`; with `?cursor=` what stands before |
 * | `GET /api/chat/{id}/stream` | the reply in progress, for `useChat({ resume: true })` |
 * | `DELETE /api/chat/{id}/stream` | stops the reply |
 * | `POST /api/chat/{id}/branches/{branch}` | goes to another of the answers that `metadata.sash.ways` names |
 *
 * A reply that fails before its first word gives way to the one that it replaced.
 */
export function chat(
  sash: Sash,
  query: WindowQuery & { model: string },
  answer: (asked: Asked) => Response | Promise<Response>,
): (request: Request) => Promise<Response> {
  const running = new Map<string, AbortController>();

  async function ask(request: Request): Promise<Response> {
    const { id: conversation, messages } = (await request.json()) as { id: string; messages: any[] };
    const id = crypto.randomUUID();
    const begun = { id, role: "assistant", parts: [], status: "in_progress" };
    const agreed = await sash.agree(conversation, [...messages, begun], { ...query, format: "ui", list: "end" });
    const turns = new Turns(sash, conversation, query);
    const stop = new AbortController();
    running.get(conversation)?.abort(); // its reply was taken away
    running.set(conversation, stop);
    turns.isPages = true;
    turns.open = id;
    const end = async () => {
      if (running.get(conversation) === stop) running.delete(conversation);
      if (turns.hasWords || !(await backTo(sash, agreed))) await turns.end();
    };
    try {
      turns.begun = { id, window: windowOf(agreed) };
      const response = await answer({ chat: conversation, messages, id, fetch: turns.fetch, signal: stop.signal });
      if (!response.ok || !response.body) {
        await end();
        return response;
      }
      const [page, own] = response.body.tee();
      void drained(own).then(end, end);
      return new Response(page, head(response));
    } catch (error) {
      await end();
      throw error;
    }
  }

  async function stop(conversation: string): Promise<Response> {
    const here = running.get(conversation);
    if (here) here.abort();
    else {
      const { messages } = await sash.messages(conversation, { order: "desc", limit: 1 });
      const [newest] = messages;
      if (newest?.status === "in_progress") {
        const { id, message } = newest;
        await sash.append(conversation, [{ id, message, status: "interrupted", continues: true }]);
      }
    }
    return new Response(null, { status: 204 });
  }

  async function history(conversation: string, search: URLSearchParams): Promise<Response> {
    const asked = { format: "ui", order: "desc", limit: search.get("limit") ?? 100, cursor: search.get("cursor") };
    const page = await sash.call("GET", `${path(conversation)}/messages`, asked).catch((error) => {
      if (error.status !== 404) throw error;
      return { messages: [], next_cursor: null };
    });
    return Response.json({ ...page, messages: page.messages.reverse() });
  }

  return async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    const found = /\/([^/]+)\/(?:(stream)|branches\/([^/]+))$/.exec(pathname);
    const conversation = decodeURIComponent(found?.[1] ?? pathname.split("/").at(-1)!);
    try {
      if (found?.[2]) return request.method === "DELETE" ? await stop(conversation) : await resume(sash, conversation);
      if (found?.[3]) return Response.json(await sash.call("POST", `${path(conversation)}/branches/${found[3]}`));
      return request.method === "POST" ? await ask(request) : await history(conversation, searchParams);
    } catch (error) {
      if (!(error instanceof SashError)) throw error;
      return Response.json(error.problem, { status: error.problem.status, headers: error.headers });
    }
  };
}

/** Go back to the answer that a new one was to replace, if that is all that the agreement did; returns whether it was. */
async function backTo(sash: Sash, agreed: Agreed): Promise<boolean> {
  if (!agreed.branch || agreed.messages.filter(({ duplicate }) => !duplicate).length > 1) return false;
  const back = sash.call("POST", `${path(agreed.conversation_id)}/branches/${agreed.branch.id}`, {}, undefined, {
    "If-Match": agreed.etag,
  });
  return back.then(() => true, () => false);
}

async function drained(body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.getReader();
  while (!(await reader.read()).done);
}

// ---- assistant-ui

/** A message of assistant-ui's tree, and the one that it stands behind. */
export interface TreeItem {
  parentId: string | null;
  message: any;
}

/** All branches of a conversation as assistant-ui's tree of UIMessages, whose head is the path's last message. */
export async function tree(sash: Sash, conversation: string): Promise<{ headId: string | null; messages: TreeItem[] }> {
  const page: UIMessage[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const read = await sash.call("GET", `${path(conversation)}/messages`, { format: "ui", limit: 1000, cursor }).catch(absent);
    page.push(...read.messages);
    cursor = read.next_cursor;
  }
  const { branches } = await sash.call("GET", `${path(conversation)}/branches`, { messages: true }).catch(absent);
  const items: TreeItem[] = [];
  const ways = new Map<string | null, TreeItem[]>();
  /** Put a row of messages behind the one with a seq of its parent. An id that stands already gets the branch's name. */
  const put = (name: string | null, messages: UIMessage[], before: TreeItem[]) => {
    const own = [...before];
    for (const message of messages) {
      const isTaken = items.some((each) => each.message.id === message.id);
      const item = { parentId: own.at(-1)?.message.id ?? null, message: isTaken ? { ...message, id: `${message.id}.${name}` } : message };
      items.push(item);
      own.push(item);
    }
    ways.set(name, own);
  };
  put(null, page, []);
  for (let left: any[] = branches; left.length; ) {
    const next = left.filter(({ parent }) => ways.has(parent));
    if (!next.length) break;
    for (const { id, parent, after_seq, content } of next) {
      put(id, content, ways.get(parent)!.filter(({ message }) => message.metadata.sash.last_seq <= after_seq));
    }
    left = left.filter((each) => !next.includes(each));
  }
  return { headId: ways.get(null)!.at(-1)?.message.id ?? null, messages: items };
}

function absent(error: unknown): any {
  if (error instanceof SashError && error.status === 404) return { messages: [], next_cursor: null, branches: [] };
  throw error;
}

/**
 * assistant-ui's adapters: `threads` for its thread list, which has an owner's conversations, and `history` of one. In a browser,
 * `sash` is of a proxy of yours that adds the key. A history appends nothing, as the chat's route has the log agree.
 */
export function assistantUi(sash: Sash, owner: string) {
  const shown = ({ id, metadata, updated_at }: any) => ({
    remoteId: id as string,
    status: metadata?.archived ? ("archived" as const) : ("regular" as const),
    title: metadata?.title as string | undefined,
    lastMessageAt: new Date(updated_at),
    custom: metadata?.custom as Record<string, unknown> | undefined,
  });
  const change = async (id: string, metadata: object) => void (await sash.call("PATCH", path(id), {}, { metadata }));
  const nothing = async () => undefined;
  return {
    threads: {
      async list({ after }: { after?: string | undefined } = {}) {
        const page = await sash.call("GET", "/conversations", { owner, limit: 100, cursor: after });
        return { threads: page.conversations.map(shown), nextCursor: page.next_cursor ?? undefined };
      },
      async initialize(_: string, { custom }: { custom?: Record<string, unknown> | undefined } = {}) {
        const { id } = await sash.create(custom ? { owner, metadata: { custom } } : { owner });
        return { remoteId: id, externalId: undefined };
      },
      fetch: async (id: string) => shown(await sash.call("GET", path(id))),
      rename: (id: string, title: string) => change(id, { title }),
      updateCustom: (id: string, custom: Record<string, unknown> | undefined) => change(id, { custom: custom ?? null }),
      archive: (id: string) => change(id, { archived: true }),
      unarchive: (id: string) => change(id, { archived: null }),
      delete: async (id: string) => void (await sash.call("DELETE", path(id))),
      /** The title is the beginning of the first question. */
      async generateTitle(id: string, messages: readonly any[]): Promise<ReadableStream<any>> {
        const said = messages.find(({ role }) => role === "user")?.content ?? [];
        const title = said.map((part: any) => part.text ?? "").join(" ").slice(0, 60);
        await change(id, { title });
        return new ReadableStream({
          start(controller) {
            controller.enqueue({ type: "part-start", part: { type: "text" }, path: [0] });
            controller.enqueue({ type: "text-delta", textDelta: title, path: [0] });
            controller.enqueue({ type: "part-finish", path: [0] });
            controller.close();
          },
        });
      },
    },
    history: (conversation: string) => ({
      load: async () => ({ headId: null, messages: [] }), // the runtime of the AI SDK asks with a format
      append: nothing,
      withFormat: () => ({ load: () => tree(sash, conversation), append: nothing }),
    }),
  };
}

// ---- a reply in progress, for a page that was loaded anew

/** A part of a UIMessage of the AI SDK. */
type Part = { type: string; [member: string]: any };
type UIMessage = { id: string; role: string; parts: Part[]; metadata: { sash: { status: string } } };

/** How long a reply may stand still until its writer counts as gone. */
const PATIENCE_MS = 60_000;

/**
 * The answer to `useChat({ resume: true })`: the reply in progress as a UI message stream, told from its turn's beginning, and on
 * while it grows. 204 without one. The message has the id that the history gives it with `format=ui`.
 *
 * It ends with `abort` where the reply was interrupted, or was taken away, and with `error` where nobody goes on writing it.
 */
export async function resume(
  sash: Sash,
  conversation: string,
  options: { signal?: AbortSignal; patienceMs?: number } = {},
): Promise<Response> {
  const newest = async () => (await shown(sash, conversation))[0];
  const begun = await newest();
  if (begun?.role !== "assistant" || begun.metadata.sash.status !== "in_progress") return new Response(null, { status: 204 });
  const leaving = new AbortController();
  options.signal?.addEventListener("abort", () => leaving.abort());
  const patience = options.patienceMs ?? PATIENCE_MS;
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      const tell = (chunk: object) => controller.enqueue(encoder.encode(`data: ${JSON.stringify(chunk)}\n\n`));
      let timer: ReturnType<typeof setTimeout> | undefined;
      let isLate = false;
      const wait = () => {
        clearTimeout(timer);
        timer = setTimeout(() => ((isLate = true), leaving.abort()), patience);
      };
      try {
        const telling = new Telling(begun.id, tell);
        telling.take(begun);
        wait();
        for await (const _ of sash.follow(conversation, { signal: leaving.signal })) {
          const now = await newest();
          if (!telling.take(now)) break;
          wait();
        }
        if (isLate) tell({ type: "error", errorText: "Nobody goes on writing this reply." });
        else if (!telling.ended) tell({ type: "abort" });
        controller.enqueue(encoder.encode("data: [DONE]\n\n"));
        controller.close();
      } catch (error) {
        if (!leaving.signal.aborted || isLate) controller.error(error);
      } finally {
        clearTimeout(timer);
        leaving.abort();
      }
    },
    cancel: () => leaving.abort(),
  });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      "x-vercel-ai-ui-message-stream": "v1",
    },
  });
}

async function shown(sash: Sash, conversation: string): Promise<UIMessage[]> {
  const query = { format: "ui", order: "desc", limit: 1 };
  try {
    return (await sash.call("GET", `${path(conversation)}/messages`, query)).messages;
  } catch (error) {
    if (error instanceof SashError && error.status === 404) return [];
    throw error;
  }
}

/** Tells a growing UIMessage as the chunks of a UI message stream. */
class Telling {
  ended = false;
  #parts: Part[] = [];
  #isOpen = false;

  readonly id: string;
  readonly tell: (chunk: object) => void;

  constructor(id: string, tell: (chunk: object) => void) {
    this.id = id;
    this.tell = tell;
    tell({ type: "start", messageId: id });
  }

  /** Tell what a message has more; whether it may go on. One that is another, or is not as it was, ends it. */
  take(message: UIMessage | undefined): boolean {
    if (message?.id !== this.id || !this.#isSame(message.parts)) return false;
    for (const [place, part] of message.parts.entries()) this.#part(place, part, this.#parts[place]);
    this.#parts = message.parts;
    const { status } = message.metadata.sash;
    if (status === "in_progress") return true;
    if (status !== "completed") return false;
    this.#close(message.parts.length);
    this.tell({ type: "finish-step" });
    this.tell({ type: "finish", messageMetadata: message.metadata });
    this.ended = true;
    return false;
  }

  #isSame(parts: Part[]): boolean {
    return this.#parts.every(({ type, text }, place) => {
      const now = parts[place];
      return now?.type === type && (typeof text !== "string" || now["text"].startsWith(text));
    });
  }

  /** End the text that stands before a place, if one is open. */
  #close(place: number): void {
    if (this.#isOpen) this.tell({ type: "text-end", id: `t${place - 1}` });
    this.#isOpen = false;
  }

  #part(place: number, part: Part, before: Part | undefined): void {
    const { type } = part;
    if (before) {
      if (type === "text" && part["text"] !== before["text"]) {
        this.tell({ type: "text-delta", id: `t${place}`, delta: part["text"].slice(before["text"].length) });
      } else if ("toolCallId" in part && part["state"] !== before["state"]) this.#result(part);
      return;
    }
    this.#close(place);
    if (type === "step-start") {
      if (place) this.tell({ type: "finish-step" });
      this.tell({ type: "start-step" });
    } else if (type === "text" || type === "reasoning") {
      const id = `t${place}`;
      this.tell({ type: `${type}-start`, id });
      this.tell({ type: `${type}-delta`, id, delta: part["text"] });
      if (type === "text") this.#isOpen = true;
      else this.tell({ type: "reasoning-end", id });
    } else if ("toolCallId" in part) {
      const dynamic = type === "dynamic-tool";
      const toolName = dynamic ? part["toolName"] : type.slice("tool-".length);
      this.tell({ type: "tool-input-available", toolCallId: part["toolCallId"], toolName, input: part["input"], dynamic });
      this.#result(part);
    } else this.tell(part); // a file, a source, data
  }

  #result({ toolCallId, state, output, errorText }: Part): void {
    if (state === "output-available") this.tell({ type: "tool-output-available", toolCallId, output });
    if (state === "output-error") this.tell({ type: "tool-output-error", toolCallId, errorText });
  }
}
