const looked = { id: "", model: "", reserve: "", max_tokens: "", stable: false, stable_step: "0.5", grounding: "latest", recall_max_tokens: "", recall_query: "" };
const found = { window: null, modelless: "", hits: [], asked: "", selected: null, held: false, top: 128000 };
const MOST_SHOWN = 600;
const LEAST_TOKENS = 64;
const STAND_IN = "gpt-4o-mini";

function conversationView(main, parameters) {
  for (const name of Object.keys(looked)) if (parameters.has(name)) looked[name] = name === "stable" ? parameters.get(name) === "true" : parameters.get(name);
  const field = (name, text, input, extra) => h("div", { class: "field" }, h("label", { for: `c-${name}` }, text), input, extra);
  const change = (name) => (event) => { looked[name] = event.target.value.trim(); soon(); };
  main.append(
    h("h1", { class: "visually-hidden" }, "A conversation and its window"),
    h("form", { class: "controls", submit: (event) => { event.preventDefault(); look(true); } },
      h("div", { class: "line" }, field("id", "Conversation", h("input", { id: "c-id", class: "id", value: looked.id, placeholder: "its id", required: true, spellcheck: "false", autocomplete: "off", autocapitalize: "off", change: change("id") })),
      field("model", "Model", h("input", { id: "c-model", value: looked.model, placeholder: "its own", list: "models", spellcheck: "false", autocomplete: "off", change: change("model") }), h("datalist", { id: "models" })),
      h("div", { class: "field wide" }, h("label", { for: "c-query" }, "Search, and recall for"), h("input", { id: "c-query", type: "search", value: looked.recall_query, placeholder: "the newest question", maxlength: 1000, autocomplete: "off", input: change("recall_query") })),
      h("button", { class: "primary" }, "Show")),
      h("div", { class: "line" }, field("reserve", "Reserve for the reply", h("input", { id: "c-reserve", type: "number", min: 0, step: 1, value: looked.reserve, placeholder: "its own", input: change("reserve") })),
      field("max", "At most, tokens", h("input", { id: "c-max", type: "number", min: 1, step: 1, value: looked.max_tokens, placeholder: "no limit", input: (event) => { looked.max_tokens = event.target.value.trim(); byId("c-slide").value = slideOf(looked.max_tokens); soon(); } })),
      field("slide", "Smaller window", h("input", { id: "c-slide", type: "range", min: 0, max: 100, value: slideOf(looked.max_tokens), input: (event) => { looked.max_tokens = tokensOf(event.target.value); byId("c-max").value = looked.max_tokens; soon(); } })),
      field("grounding", "Documents", h("select", { id: "c-grounding", change: change("grounding") }, ["latest", "all", "none"].map((value) => h("option", { value, selected: looked.grounding === value }, value)))),
      field("recall", "For recall, tokens", h("input", { id: "c-recall", type: "number", min: 0, step: 1, value: looked.recall_max_tokens, placeholder: "none", input: change("recall_max_tokens") })),
      h("div", { class: "field check" }, h("input", { id: "c-stable", type: "checkbox", checked: looked.stable, change: (event) => { looked.stable = event.target.checked; soon(); } }), h("label", { for: "c-stable" }, "Stable cut")))),
    h("p", { id: "heard", class: "visually-hidden", role: "status" }), h("div", { id: "seen" }));
  found.window = null;
  api.get("models").then((known) => byId("models")?.replaceChildren(...(known.models ?? known).map((model) => h("option", { value: model.id })))).catch(() => {});
  if (looked.id) look(true);
  else {
    byId("seen").append(h("p", { class: "notice" }, "Type a conversation’s id to see its messages and what of them a window holds."));
    byId("c-id").focus();
  }
  return { every: 3000, refresh: () => look(false) };
}

const slideOf = (tokens) => (tokens ? Math.round((100 * Math.log(tokens / LEAST_TOKENS)) / Math.log(found.top / LEAST_TOKENS)) : 100);
const tokensOf = (slide) => (Number(slide) === 100 ? "" : String(Math.round(LEAST_TOKENS * (found.top / LEAST_TOKENS) ** (slide / 100))));

let waiting;
function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(() => look(true), 120);
}

function asked() {
  const query = new URLSearchParams();
  for (const name of ["model", "reserve", "max_tokens", "recall_max_tokens", "recall_query"]) if (looked[name]) query.set(name, looked[name]);
  if (looked.grounding !== "latest") query.set("grounding", looked.grounding);
  if (looked.stable) { query.set("stable", "true"); query.set("stable_step", looked.stable_step); }
  return query;
}

/** Read the window again, but only if the conversation has changed, unless `whole`. */
async function look(whole) {
  if (!looked.id || !byId("seen")) return;
  const query = asked();
  const state = new URLSearchParams([["id", looked.id], ...query]);
  history.replaceState(null, "", `#conversation?${state}`);
  query.set("explain", "true");
  if (!looked.model && found.modelless === looked.id) query.set("model", STAND_IN);
  const question = `conversations/${encodeURIComponent(looked.id)}/window?${query}`;
  const same = !whole && found.asked === question && found.window;
  found.asked = question;
  let window = null;
  try {
    window = await api.get(question, same ? { "If-None-Match": found.window.etag } : {});
  } catch (error) {
    if (found.asked === question && byId("seen")) { found.window = null; drawProblem(error); }
    return;
  }
  const hits = await search();
  if (!window || found.asked !== question || !byId("seen")) return;
  found.hits = hits;
  if (window.context_window) found.top = Math.max(1024, window.context_window - window.reserve);
  const arrived = found.window && found.window.conversation_id === window.conversation_id && window.version > found.window.version;
  if (found.window?.conversation_id !== window.conversation_id) found.held = false;
  found.window = window;
  drawConversation(window, arrived);
}

/** Messages that the search finds, best first; or why the conversation cannot be searched. */
async function search() {
  if (!looked.recall_query) return [];
  try {
    return (await api.get(`conversations/${encodeURIComponent(looked.id)}/search?${new URLSearchParams({ query: looked.recall_query, limit: 20 })}`)).messages;
  } catch (error) {
    return [{ said: error.problem.detail }];
  }
}

/** The found messages, each a button that shows the message. */
function hitsCard() {
  if (!looked.recall_query) return null;
  const lines = found.hits.map((hit) => h("li", {}, hit.said ?? h("button", { type: "button", "data-hit": hit.seq, click: () => choose(hit.seq, false) }, `${hit.seq} · ${hit.message.role} · ${textOf(hit.message).slice(0, 100)}`)));
  return h("section", { class: "card whole", "aria-label": "Found" }, h("h2", {}, `Found: ${looked.recall_query}`), lines.length ? h("ol", { class: "hits" }, lines) : h("p", { class: "small" }, "Nothing bears on it."));
}

function drawProblem(error) {
  const { problem } = error;
  if (!looked.model && found.modelless !== looked.id && problem.errors?.some((each) => each.pointer === "#/query/model")) {
    found.modelless = looked.id; // no error: its window is shown as a usual model would get it
    return look(true);
  }
  const costs = Object.entries(problem.costs ?? {}).map(([name, tokens], index) => [["c-system", "c-user", "c-accent", "c-warn", "c-soft"][index % 5], name, tokens]);
  const near = problem.near?.length ? h("p", { class: "small" }, `Near: ${problem.near.join(", ")}`) : null;
  byId("heard").textContent = `${problem.title}. ${problem.detail}`;
  byId("seen").replaceChildren(h("div", { class: "card whole problem" }, h("h2", {}, problem.title), h("p", {}, problem.detail), near,
    costs.length ? stacked(costs, "What must be in the window", " tokens") : null));
}

function drawConversation(window, arrived) {
  const { tokens, kept, dropped, grounding } = window;
  const free = window.budget - tokens.total;
  const parts = [["c-soft", "priming", tokens.priming], ["c-system", "system and few-shots", tokens.system + tokens.few_shots], ["c-warn", "tools", tokens.tools], ["c-soft", "summary and note", tokens.summary], ["c-accent", "messages", tokens.messages], ["c-system", "reasoning", tokens.reasoning], ["c-user", "documents", tokens.grounding], ["c-quiet", "free", free]];
  const why = { complete: "It holds the whole history.", budget: looked.stable ? "A stable cut ended it, with room for the turns to come." : "The budget ended it.", limit: "A limit ended it.", summary: "The summary ended it.", bytes: "The provider takes no more bytes.", images: "It holds the whole history, without all pictures: the provider takes no more.", price: "Its price ended it: more would cost more." }[window.stop_reason];
  const messages = kept.messages + dropped.messages;
  const standIn = !looked.model && found.modelless === looked.id ? h("p", { class: "small" }, `The conversation names no model: this is its window for ${STAND_IN}. Choose another above.`) : null;
  const walking = byId("strip")?.contains(document.activeElement) ?? false;
  byId("seen").replaceChildren(
    h("div", { class: "grid" },
      h("section", { class: "card two-thirds", "aria-label": "The window" },
        h("h2", {}, `${window.model}${window.exact ? "" : ", estimated"} · version ${window.version}${arrived ? " · just now" : ""}`),
        h("p", { class: "lead" }, `${say.whole(tokens.total)} of ${say.whole(window.budget)} tokens`, h("span", { class: "small" }, `  ${say.share(tokens.total / window.budget)} full. ${why}`)),
        standIn, stacked(parts.filter(([, name, n]) => n || name === "free"), "The budget", " tokens")),
      h("section", { class: "card", "aria-label": "In figures" },
        h("h2", {}, "In figures"),
        pairs(["messages kept", `${say.whole(kept.messages)} of ${say.whole(messages)}`], ["left out", say.count(dropped.messages, "message")], ["their tokens", say.whole(dropped.tokens)],
          grounding.documents ? ["documents sent", `${grounding.documents_kept} of ${grounding.documents}${grounding.truncated ? ", cut" : ""}`, grounding.truncated ? "warn" : ""] : null,
          dropped.grounding_messages ? ["documents of other questions", `${say.short(dropped.grounding_tokens)} tokens, not sent again`] : null,
          dropped.reasoning_tokens ? ["earlier reasoning", `${say.short(dropped.reasoning_tokens)} tokens, not sent`] : null,
          dropped.media_bytes ? ["pictures and files as lines", `${say.whole(dropped.images + dropped.files)}, ${say.bytes(dropped.media_bytes)}`, "warn"] : null,
          window.recalled?.messages ? ["recalled", `${say.count(window.recalled.messages, "message")}, ${say.short(window.recalled.tokens)} tokens`] : null,
          window.trimmed ? ["tool results cut", `${say.whole(window.trimmed.messages)}, ${say.short(window.trimmed.tokens)} tokens saved`, "warn"] : null, ["reserve", say.whole(window.reserve)])),
      h("section", { class: "card whole", "aria-label": "Messages" }, h("h2", {}, "Messages, oldest first: what is filled is sent, the line is the cut"), strip(window),
        h("ul", { class: "key" }, ["system", "user", "assistant", "tool"].map((role) => h("li", { class: `r-${role}` }, role)), h("li", { class: "c-quiet" }, "left out"),
          window.explain.some((line) => line.reason === "always: pinned") ? h("li", { class: "mark" }, "pinned") : null, window.recalled?.messages ? h("li", { class: "lit" }, "recalled") : null, grounding.truncated || window.trimmed ? h("li", { class: "stripes" }, "cut") : null)),
      hitsCard(),
      h("section", { class: "card whole detail", id: "detail", "aria-label": "The message", "aria-live": "polite" }),
      requestCard(window)));
  byId("heard").textContent = `${say.whole(tokens.total)} of ${say.whole(window.budget)} tokens, ${say.whole(kept.messages)} of ${say.count(messages, "message")} kept. ${why}`;
  const lines = window.explain;
  const chosen = (found.held && lines.find((line) => line.seq === found.selected)) || lines.at(-1);
  if (chosen) select(chosen.seq, walking);
  else byId("detail").append(h("p", { class: "small" }, "No messages yet."));
}

/** The request that a client sends to the provider, unchanged, and a button that copies it. */
function requestCard(window) {
  const text = JSON.stringify(window.request, null, 2), said = h("span", { class: "small", role: "status" });
  const copy = () => navigator.clipboard.writeText(text).then(() => { said.textContent = "Copied."; }, () => { said.textContent = "The browser does not let it be copied here: select it below."; });
  return h("section", { class: "card whole", "aria-label": "The request" },
    h("details", { id: "request", open: byId("request")?.open }, h("summary", {}, `The request itself, ${say.bytes(new Blob([text]).size)} of JSON`),
      h("p", { class: "buttons" }, said, h("button", { type: "button", id: "copy", click: copy }, "Copy")),
      h("pre", { class: "command request", tabindex: "0", role: "region", "aria-label": "The request as JSON" }, text)));
}

function strip(window) {
  const lines = window.explain, cut = cutOf(lines);
  const first = lines.length > MOST_SHOWN ? lines.length - MOST_SHOWN : 0;
  const unseen = window.kept.messages + window.dropped.messages - lines.length + first;
  const newest = lines.findLast((line) => line.role === "user")?.seq;
  const cells = lines.slice(first).map((line) => {
    const cutDocuments = window.grounding.truncated && line.seq === newest, trimmed = cutDocuments || line.trimmed;
    const classes = [`r-${line.role}`, line.kept ? "" : "out", line.reason === "always: pinned" ? "pinned" : "", line.score === undefined ? "" : "recalled", trimmed ? "trimmed" : ""];
    const about = `Message ${line.seq}, ${line.role}, ${say.count(line.tokens, "token")}, ${line.kept ? "sent" : "left out"}: ${line.reason}${cutDocuments ? "; its documents were cut" : ""}${savedOn(line)}`;
    const button = h("button", { type: "button", class: classes.filter(Boolean).join(" "), title: about, "aria-label": about, "data-seq": line.seq, tabindex: "-1", click: () => choose(line.seq, true), keydown: walk, focus: () => choose(line.seq, false) });
    const wide = 16 + 16 * Math.log2(1 + (line.tokens + (line.trimmed ?? 0)) / 8), number = String(line.seq);
    button.style.width = `${wide}px`;
    if (wide > 8 + 7 * number.length) button.append(number);
    return [line.seq === cut ? h("li", { class: "cut", title: "Here history begins", "aria-hidden": "true" }) : null, h("li", {}, button)];
  });
  return h("ol", { class: "strip", id: "strip" }, unseen > 0 ? h("li", { class: "older" }, `${say.whole(unseen)} older`) : null, cells);
}

/** The message's tokens that are not sent, as text; empty if it is sent whole. */
function savedOn(line) {
  return (line.trimmed ? `; cut, ${say.whole(line.trimmed)} tokens saved` : "") + (line.reasoning_left_out ? `; ${say.whole(line.reasoning_left_out)} tokens of reasoning not sent` : "");
}

/** The first seq from which on all messages are kept; null if none is left out. */
function cutOf(lines) {
  let index = lines.length;
  while (index > 0 && lines[index - 1].kept) index -= 1;
  return index > 0 && index < lines.length ? lines[index].seq : null;
}

function walk(event) {
  const buttons = [...byId("strip").querySelectorAll("button")], at = buttons.indexOf(event.currentTarget);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (to === undefined || !buttons[to]) return;
  event.preventDefault();
  buttons[to].focus();
}

/** Select a message. It stays selected while others are appended, unless it is the newest. */
function choose(seq, focus) {
  found.held = seq !== found.window.explain.at(-1).seq;
  select(seq, focus);
}

async function select(seq, focus) {
  const before = found.selected;
  found.selected = seq;
  for (const button of byId("strip").querySelectorAll("button")) {
    const here = Number(button.dataset.seq) === seq;
    button.tabIndex = here ? 0 : -1;
    if (here) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
    if (here && focus) button.focus();
  }
  if (before === seq && byId("detail").childElementCount) return;
  const line = found.window.explain.find((each) => each.seq === seq) ?? { kept: false, reason: "older than what the window looked at", tokens: null };
  let message = null;
  try {
    message = await api.get(`conversations/${encodeURIComponent(looked.id)}/messages/${seq}`);
  } catch {
    message = null;
  }
  if (found.selected !== seq || !byId("detail")) return;
  byId("detail").replaceChildren(
    h("div", {}, h("h2", {}, `Message ${seq}`), pairs(message ? ["id", h("span", { class: "id" }, message.id)] : null, message?.status ? ["status", message.status.replace("_", " "), message.status === "completed" ? "" : "warn"] : null, ["role", line.role ?? message?.message.role], ["sent", line.kept ? "yes" : "no"], ["because", line.reason], ["tokens", say.whole(line.tokens ?? message?.tokens[found.window.encoding])], line.score === undefined ? null : ["score", String(line.score)],
      line.reasoning ? ["reasoning sent", `${say.whole(line.reasoning)} tokens`] : null, line.reasoning_left_out ? ["reasoning not sent", `${say.whole(line.reasoning_left_out)} tokens`] : null,
      line.trimmed ? ["cut away", `${say.whole(line.trimmed)} tokens`] : null,
      message?.grounding ? ["documents", `${message.grounding.documents.length}, ${say.whole(message.grounding_tokens?.[found.window.encoding])} tokens`] : null,
      message?.pinned ? ["pinned", "yes"] : null, message?.metadata ? ["metadata", JSON.stringify(message.metadata)] : null, message ? ["came", new Date(message.created_at).toLocaleString("en-GB")] : null)),
    h("pre", { tabindex: "0", role: "region", "aria-label": "Text of the message" }, message ? textOf(message.message) : "It could not be read."));
}

function textOf(message) {
  const content = typeof message.content === "string" ? message.content : (message.content ?? []).map((part) => part.text ?? `[${part.type}]`).join("\n");
  const calls = (message.tool_calls ?? []).map((call) => `→ ${call.function?.name ?? call.custom?.name}(${call.function?.arguments ?? call.custom?.input})`);
  const thoughts = [message.reasoning_content ?? message.reasoning, ...(message.thinking_blocks ?? []).map((block) => block.thinking ?? "[redacted]")];
  return [...thoughts.filter(Boolean).map((text) => `(thinking) ${text}`), content, ...calls].filter(Boolean).join("\n") || "(nothing)";
}
