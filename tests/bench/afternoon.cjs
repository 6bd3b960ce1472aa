// The afternoon's service (afternoon.py) in Node, with redis and gpt-tokenizer: node afternoon.cjs PORT
"use strict";
const { createServer } = require("node:http");
const { createClient } = require("redis");
const { countTokens } = require("gpt-tokenizer/encoding/o200k_base");

const PRIMING = 3;
const A_MESSAGE = 4;
const PLAIN_TEXT = { disallowedSpecial: new Set() };
const PATH = /^\/conversations\/([^/]+)\/(messages|window)$/;
const store = createClient({ url: process.env.SASH_REDIS_URL });

const lineOf = ({ message }) =>
  JSON.stringify({ tokens: A_MESSAGE + countTokens(message.content, PLAIN_TEXT), message });

function windowOf(lines, maxTokens) {
  const messages = [];
  let tokens = PRIMING;
  for (let place = lines.length - 1; place >= 0; place -= 1) {
    const stored = JSON.parse(lines[place]);
    if (tokens + stored.tokens > maxTokens) break;
    tokens += stored.tokens;
    messages.push(stored.message);
  }
  return { messages: messages.reverse(), tokens };
}

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return JSON.parse(Buffer.concat(parts));
}

async function append(key, request, maxTokens) {
  const lines = (await bodyOf(request)).messages.map(lineOf);
  if (maxTokens === null) return { length: await store.rPush(key, lines), window: null };
  // Both are sent at once.
  const [length, stored] = await Promise.all([store.rPush(key, lines), store.lRange(key, 0, -1)]);
  return { length, window: windowOf(stored, Number(maxTokens)) };
}

async function answer(request) {
  const url = new URL(request.url, "http://localhost");
  const [, conversation, what] = PATH.exec(url.pathname) ?? [];
  const maxTokens = url.searchParams.get("max_tokens");
  const key = `node:${conversation}`;
  if (what === "messages") return append(key, request, maxTokens);
  if (what === "window") return windowOf(await store.lRange(key, 0, -1), Number(maxTokens));
  return (await store.ping()) === "PONG";
}

async function main() {
  await store.connect();
  const server = createServer(async (request, response) => {
    const found = Buffer.from(JSON.stringify(await answer(request)));
    const status = request.method === "POST" ? 201 : 200;
    response.writeHead(status, { "Content-Type": "application/json", "Content-Length": found.length });
    response.end(found);
  });
  server.listen(Number(process.argv[2]), "127.0.0.1");
}

main();
