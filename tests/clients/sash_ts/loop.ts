// A tool loop that breaks off in its middle, and is asked again: the AI SDK with `through`, `tsx loop.ts SASH`.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, type ModelMessage, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { Sash, through, type ThroughOptions } from "./sash.ts";

const sash = new Sash(process.argv[2]!);
const own = globalThis.fetch;
const call = { id: "call_1", type: "function", function: { name: "find_talk", arguments: '{"topic":"gradle"}' } };
const said = (message: object, finish_reason: string) => Response.json({ id: "c", object: "chat.completion", choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }] });
const calls = () => said({ content: null, tool_calls: [call] }, "tool_calls");
const answers = () => said({ content: "At noon." }, "stop");
const fails = () => Response.json({ error: { message: "down" } }, { status: 500 });
const half = () => {
  const text = new TextEncoder();
  const chunk = (delta: object) => text.encode(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta }] })}\n\n`);
  const body = new ReadableStream({ start: (to) => to.enqueue(chunk({ role: "assistant", content: "At no" })) });
  return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
};
const streamed = () => {
  const lines = [{ delta: { role: "assistant", tool_calls: [{ index: 0, ...call }] } }, { delta: {}, finish_reason: "tool_calls" }];
  const text = lines.map((each) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, ...each }] })}\n\n`);
  return new Response(`${text.join("")}data: [DONE]\n\n`, { headers: { "Content-Type": "text/event-stream" } });
};
let script: (() => Response)[] = [];
const sent: unknown[][] = [];
globalThis.fetch = async (input, init) => {
  if (!String(input).startsWith("http://provider/")) return own(input, init);
  sent.push(JSON.parse(String(init!.body)).messages);
  return script.shift()!();
};

const find_talk = tool({ description: "Talks.", inputSchema: z.object({ topic: z.string() }), execute: async () => "found" });
const question: ModelMessage = { role: "user", content: "is there a talk?" };
const inLoop: ModelMessage[] = [
  question,
  { role: "assistant", content: [{ type: "tool-call", toolCallId: "call_1", toolName: "find_talk", input: { topic: "gradle" } }] },
  { role: "tool", content: [{ type: "tool-result", toolCallId: "call_1", toolName: "find_talk", output: { type: "text", value: "found" } }] },
];
/** What a request is made of, in a process of its own. */
const asked = (name: string, messages: ModelMessage[], options: ThroughOptions = {}, maxRetries = 0) => ({
  model: createOpenAI({ baseURL: "http://provider/v1", apiKey: "none", fetch: through(sash, name, options) }).chat("gpt-4o-mini"),
  messages,
  tools: { find_talk },
  stopWhen: stepCountIs(5),
  maxRetries,
});
const seen: Record<string, unknown> = {};
const log = async (name: string) => {
  const { messages } = await sash.messages(name);
  seen[name] = messages.map(({ message, status }: any) => [message.role, message.content || message.tool_calls?.[0].id || "", ...(status === "interrupted" ? [status] : [])]);
  seen[`${name} sent`] = sent.at(-1)!.map(({ role, content }: any) => [role, content || ""]);
};

script = [calls, fails, answers];
await generateText(asked("fails", [question])).catch(() => undefined);
await generateText(asked("fails", inLoop));
await log("fails");

script = [calls, fails, answers];
await generateText(asked("again", [question], {}, 2));
await log("again");

script = [streamed, half, answers];
const stop = new AbortController();
const stopped = streamText({ ...asked("stopped", [question]), abortSignal: stop.signal, onError: () => undefined });
for await (const text of stopped.textStream) if (text) stop.abort();
await new Promise((resolve) => setTimeout(resolve, 500));
await generateText(asked("stopped", inLoop));
await log("stopped");

script = [calls, fails, answers];
await generateText(asked("anew", [question], { list: "whole" })).catch(() => undefined);
await generateText(asked("anew", [question], { list: "whole" }));
await log("anew");

console.log(JSON.stringify(seen));
process.exit();
