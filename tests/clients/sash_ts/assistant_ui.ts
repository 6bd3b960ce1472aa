// assistant-ui's thread list, and its tree of messages, on Sash: `tsx assistant_ui.ts SASH OWNER`.
import type { RemoteThreadListAdapter, ThreadHistoryAdapter } from "@assistant-ui/core";
import { MessageRepository } from "./node_modules/@assistant-ui/core/dist/runtime/utils/message-repository.js";
import { assistantUi, Sash } from "./sash.ts";

const [url, owner = ""] = process.argv.slice(2);
const sash = new Sash(url);
const adapters = assistantUi(sash, owner);
const threads: RemoteThreadListAdapter = adapters.threads;
const seen: Record<string, unknown> = {};

const { remoteId } = await threads.initialize("__LOCALID_1");
await threads.rename(remoteId, "Talks");
seen["listed"] = (await threads.list()).threads.map(({ title, status }) => [title, status]);
await threads.archive(remoteId);
seen["archived"] = (await threads.fetch(remoteId)).status;
await threads.unarchive!(remoteId);
const title = await threads.generateTitle(remoteId, [{ role: "user", content: [{ type: "text", text: "is there a talk?" }] }] as any);
const chunks: unknown[] = [];
for await (const chunk of title as unknown as AsyncIterable<unknown>) chunks.push(chunk);
seen["generated"] = chunks.length;
seen["title"] = (await threads.fetch(remoteId)).title;

const history: ThreadHistoryAdapter = adapters.history(remoteId);
const format = { format: "ai-sdk", encode: () => ({}), decode: () => ({}) as any, getId: ({ id }: any) => id };
const loaded = async () => await history.withFormat!(format as any).load();
seen["empty"] = (await loaded()).messages.length;
const ask = (...texts: string[]) =>
  sash.agree(
    remoteId,
    texts.map((text, place) => ({ id: `${place % 2 ? `${text}-` : "q"}${place}`, role: place % 2 ? "assistant" : "user", content: text })),
    { list: "whole" },
  );
await ask("q1", "a1", "q2", "a2");
await ask("q1", "a1", "q2", "a3"); // regenerated
await ask("q1", "a1", "q2 edited", "a4"); // edited, under the same id
const { headId, messages } = await loaded();
const repository = new MessageRepository();
const words: Record<string, string> = {};
for (const { parentId, message } of messages as any[]) {
  words[message.id] = message.parts.map(({ text }: any) => text ?? "").join("");
  repository.addOrUpdateMessage(parentId, { ...message, content: message.parts, createdAt: new Date(), status: { type: "complete" } } as any);
}
repository.resetHead(headId ?? null);
const shown = () => repository.getMessages().map(({ id }) => words[id]);
seen["path"] = shown();
const [, , question] = repository.getMessages();
seen["ways"] = repository.getBranches(question!.id).map((id) => words[id]);
const other = repository.getBranches(question!.id).find((id) => words[id] === "q2")!;
repository.switchToBranch(other);
seen["other"] = shown().slice(0, 3);
seen["answers"] = repository.getBranches(repository.getMessages()[3]!.id).map((id) => words[id]).sort();
await threads.delete(remoteId);
seen["left"] = (await threads.list()).threads.length;
console.log(JSON.stringify(seen));
process.exit();
