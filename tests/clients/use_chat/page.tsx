import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, type UIMessage } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

type Ways = { at: number; ids: (string | null)[] };
type Message = UIMessage<{ sash?: { ways?: Ways } }>;

const api = "/api/chat";
const id = location.hash.slice(1) || "talks-12";
const load = async (): Promise<{ messages: Message[]; ways?: Ways }> => (await fetch(`${api}/${id}`)).json();
const textOf = ({ parts }: Message) => parts.map((part) => (part.type === "text" ? part.text : "")).join("");

function Chat(loaded: { messages: Message[]; ways?: Ways }) {
  const [text, setText] = useState("");
  const [editing, setEditing] = useState<string>();
  const [end, setEnd] = useState(loaded.ways);
  const { messages, setMessages, sendMessage, regenerate, stop, status } = useChat<Message>({
    id,
    messages: loaded.messages,
    resume: true, // goes on with a reply in progress after a reload
    transport: new DefaultChatTransport({ api }),
    onFinish: () => void refresh(),
  });
  const refresh = async () => {
    const now = await load();
    setMessages(now.messages);
    setEnd(now.ways);
  };
  const go = async (branch: string) => {
    await fetch(`${api}/${id}/branches/${branch}`, { method: "POST" });
    await refresh();
  };
  const picker = ({ at, ids }: Ways) => (
    <span className="ways">
      <button className="older" disabled={at === 1} onClick={() => void go(ids[at - 2]!)}>←</button>
      {at} of {ids.length}
      <button className="newer" disabled={at === ids.length} onClick={() => void go(ids[at]!)}>→</button>
    </span>
  );
  const send = () => {
    void sendMessage(editing ? { text, messageId: editing } : { text });
    setText("");
    setEditing(undefined);
  };
  const isBusy = status === "submitted" || status === "streaming";
  return (
    <main data-status={status}>
      {messages.map((message) => (
        <p key={message.id} className={message.role}>
          <span className="text">{textOf(message)}</span>
          {message.metadata?.sash?.ways && picker(message.metadata.sash.ways)}
          {message.role === "user" && <button className="edit" onClick={() => (setEditing(message.id), setText(textOf(message)))}>edit</button>}
        </p>
      ))}
      {end && picker(end)}
      <input value={text} onChange={(event) => setText(event.target.value)} />
      <button id="send" disabled={isBusy} onClick={send}>{editing ? "Change" : "Send"}</button>
      <button id="again" disabled={isBusy} onClick={() => void regenerate()}>{status === "error" ? "Retry" : "Regenerate"}</button>
      <button id="stop" disabled={!isBusy} onClick={() => (void stop(), void fetch(`${api}/${id}/stream`, { method: "DELETE" }))}>Stop</button>
    </main>
  );
}

void load().then((loaded) => createRoot(document.getElementById("root")!).render(<Chat {...loaded} />));
