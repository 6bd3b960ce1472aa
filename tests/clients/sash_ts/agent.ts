// An agent of the AI SDK, whose chat is kept by Sash: `tsx agent.ts chat|responses whole|streamed SASH CONVERSATION`.
// It prints each answer. The provider is named in the environment.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { Sash, through } from "./sash.ts";

const [form, way, url, conversation = ""] = process.argv.slice(2);
const fetch = through(new Sash(url), conversation, { reserve: 4000, max_tokens: 3000 });
const openai = createOpenAI({ fetch });
const model = form === "chat" ? openai.chat("gpt-4o-mini") : openai("gpt-4o-mini");
const find_talk = tool({
  description: "Talks on a topic.",
  inputSchema: z.object({ topic: z.string() }),
  execute: async ({ topic }) => `${topic}: The Network Latency Tax, 12:10, Robertson 2`,
});

for (const prompt of ["is there a talk about gradle?", "and where is it?", "and a talk about gradle 9?"]) {
  const asked = { model, system: "You know the programme.", prompt, tools: { find_talk }, stopWhen: stepCountIs(5) };
  const answer = way === "whole" ? (await generateText(asked)).text : await streamText(asked).text;
  console.log(answer);
}
