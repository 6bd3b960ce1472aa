import { createOpenAI } from "@ai-sdk/openai";
import { serve } from "@hono/node-server";
import { convertToModelMessages, streamText } from "ai";
import { readFileSync } from "node:fs";
import { chat, Sash } from "./sash.ts";

const model = "gpt-4o-mini";
const sash = new Sash(process.env["SASH_URL"] ?? "http://127.0.0.1:8000");
const route = chat(sash, { model, reserve: 4000 }, async ({ messages, id, fetch, signal }) => {
  const openai = createOpenAI({ fetch }).chat(model);
  const reply = streamText({ model: openai, messages: await convertToModelMessages(messages), abortSignal: signal, maxRetries: 0 });
  return reply.toUIMessageStreamResponse({ generateMessageId: () => id });
});
const files: Record<string, [string, string]> = { "/": ["page.html", "text/html"], "/page.js": ["page.js", "text/javascript"] };

const port = Number(process.env["PORT"] ?? 3000);
serve({ port, hostname: "127.0.0.1", fetch: (request) => {
  const { pathname } = new URL(request.url);
  if (pathname.startsWith("/api/chat")) return route(request);
  const [file, type] = files[pathname] ?? [];
  return file ? new Response(readFileSync(file), { headers: { "Content-Type": type! } }) : new Response(null, { status: 404 });
} }, (here) => console.log(`http://127.0.0.1:${here.port}`));
