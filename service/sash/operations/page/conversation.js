const looked = { id: "", model: "", reserve: "", max_tokens: "", stable: false, stable_step: "0.5", format: "openai", view: "", grounding: "latest", recall_max_tokens: "", recall_query: "" };
const found = { window: null, conversation: null, modelless: "", hits: [], asked: "", selected: null, held: false, top: 128000 };
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
      field("format", "Format", h("select", { id: "c-format", change: change("format") }, FORMATS.map((value) => h("option", { value, selected: looked.format === value }, value)))),
      field("view", "As seen by", h("input", { id: "c-view", value: looked.view, placeholder: "everybody", list: "agents", spellcheck: "false", autocomplete: "off", change: change("view") }), h("datalist", { id: "agents" })),
      field("grounding", "Documents", h("select", { id: "c-grounding", change: change("grounding") }, ["latest", "all", "none"].map((value) => h("option", { value, selected: looked.grounding === value }, value)))),
      field("recall", "For recall, tokens", h("input", { id: "c-recall", type: "number", min: 0, step: 1, value: looked.recall_max_tokens, placeholder: "none", input: change("recall_max_tokens") })),
      h("div", { class: "field check" }, h("input", { id: "c-stable", type: "checkbox", checked: looked.stable, change: (event) => { looked.stable = event.target.checked; soon(); } }), h("label", { for: "c-stable" }, "Stable cut")))),
    h("p", { id: "heard", class: "visually-hidden", role: "status" }), h("div", { id: "seen" }));
  found.window = null;
  unfollow();
  api.get("models").then((known) => byId("models")?.replaceChildren(...(known.models ?? known).map((model) => h("option", { value: model.id })))).catch(() => {});
  if (looked.id) look(true);
  else {
    byId("seen").append(h("p", { class: "notice" }, "Type a conversation’s id to see its messages and what of them a window holds."));
    byId("c-id").focus();
  }
  return { every: 3000, refresh: () => look(false), leave: unfollow };
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
  for (const name of ["model", "reserve", "max_tokens", "recall_max_tokens", "recall_query", "view"]) if (looked[name]) query.set(name, looked[name]);
  if (looked.format !== FORMATS[0]) query.set("format", looked.format);
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
  const hits = await search(), conversation = window && await about(window);
  if (!window || found.asked !== question || !byId("seen")) return;
  found.hits = hits;
  if (window.context_window) found.top = Math.max(1024, window.context_window - window.reserve);
  const arrived = found.window && found.window.conversation_id === window.conversation_id && window.version > found.window.version;
  if (found.window?.conversation_id !== window.conversation_id) found.held = false;
  Object.assign(found, { window, conversation });
  drawConversation(window, arrived);
  follow(looked.id, window.version);
}

/** The conversation's settings, state and branches, read again only if it has changed. */
async function about({ conversation_id: id, version }) {
  const known = found.conversation, path = `conversations/${encodeURIComponent(id)}`;
  if (known?.id === id && known.version === version) return known;
  const [conversation, { branches }] = await Promise.all([api.get(path).catch(() => null), api.get(`${path}/branches`).catch(() => ({ branches: [] }))]);
  return conversation && { ...conversation, branches };
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
        standIn, stacked(parts.filter(([, name, n]) => n || name === "free"), "The budget", " tokens"),
        pairs(...mendedRows(window.mended), window.waiting_for?.length ? ["waits for results of", window.waiting_for.map(plain).join(", "), "warn"] : null, window.receipt ? ["receipt", h("span", { class: "id" }, window.receipt)] : null)),
      h("section", { class: "card", "aria-label": "In figures" },
        h("h2", {}, "In figures"),
        pairs(["messages kept", `${say.whole(kept.messages)} of ${say.whole(messages)}`], ...(dropped.messages ? [["left out", say.count(dropped.messages, "message")], ["their tokens", say.whole(dropped.tokens)]] : []),
          grounding.documents ? ["documents sent", `${grounding.documents_kept} of ${grounding.documents}${grounding.truncated ? ", cut" : ""}`, grounding.truncated ? "warn" : ""] : null,
          dropped.grounding_messages ? ["documents of other questions", `${say.short(dropped.grounding_tokens)} tokens, not sent again`] : null,
          dropped.reasoning_tokens ? ["earlier reasoning", `${say.short(dropped.reasoning_tokens)} tokens, not sent`] : null,
          dropped.media_bytes ? ["pictures and files as lines", `${say.whole(dropped.images + dropped.files)}, ${say.bytes(dropped.media_bytes)}`, "warn"] : null,
          window.recalled?.messages ? ["recalled", `${say.count(window.recalled.messages, "message")}, ${say.short(window.recalled.tokens)} tokens`] : null,
          window.trimmed ? ["tool results cut", `${say.whole(window.trimmed.messages)}, ${say.short(window.trimmed.tokens)} tokens saved`, "warn"] : null, ["reserve", say.whole(window.reserve)],
          window.cost ? ["price of its input", say.dollars(window.cost.usd)] : null)),
      h("section", { class: "card whole", "aria-label": "Messages" }, h("h2", {}, "Messages, oldest first: what is filled is sent, the line is the cut"), strip(window),
        h("ul", { class: "key" }, ["system", "user", "assistant", "tool"].map((role) => h("li", { class: `r-${role}` }, role)), h("li", { class: "c-quiet" }, "left out"),
          window.explain.some((line) => line.reason === "always: pinned") ? h("li", { class: "mark" }, "pinned") : null, window.recalled?.messages ? h("li", { class: "lit" }, "recalled") : null, grounding.truncated || window.trimmed ? h("li", { class: "stripes" }, "cut") : null)),
      hitsCard(),
      h("section", { class: "card whole detail", id: "detail", "aria-label": "The message", "aria-live": "polite" }),
      found.conversation ? [sidesCard(window, found.conversation.messages), aboutCard(found.conversation), liveCard(), branchesCard(found.conversation)] : null,
      requestCard(window)));
  byId("heard").textContent = `${say.whole(tokens.total)} of ${say.whole(window.budget)} tokens, ${say.whole(kept.messages)} of ${say.count(messages, "message")} kept. ${why}`;
  const lines = window.explain;
  const chosen = (found.held && lines.find((line) => line.seq === found.selected)) || lines.at(-1);
  if (chosen) select(chosen.seq, walking);
  else byId("detail").append(h("p", { class: "small" }, "No messages yet."));
  drawEvents();
}

/** What had to be changed so that the provider accepts the request. */
function mendedRows(mended) {
  return Object.entries(mended?.reasons ?? {}).map(([reason, times]) => [h("a", { href: `docs/pages?q=${reason}` }, `changed: ${reason.replaceAll("_", " ")}`), say.count(times, "time"), "warn"]);
}

/** Ends of the conversation that others replaced, with what brings one back; nothing without any. */
function branchesCard({ branches }) {
  if (!branches.length) return null;
  const rows = branches.map((each) => [h("span", { class: "id" }, each.id), each.parent ? `message ${each.after_seq} of ${each.parent}` : each.after_seq ? `message ${each.after_seq}` : "the beginning", say.whole(each.messages), each.first ? `${each.first.role}: ${plain(each.first.text.slice(0, 120))}` : NONE, new Date(each.created_at).toLocaleString("en-GB")]);
  return table("whole", "Branches: ends that were replaced. POST …/branches/{id} brings one back", ["Branch", "Hangs behind", "Messages", "Begins with", "Replaced at"], rows, 4);
}

/** What is kept of the conversation beside its messages. */
function aboutCard(conversation) {
  const { owner, metadata, summary, agents, recall, expires_at: expires, system, tools, few_shots: shots } = conversation;
  byId("agents")?.replaceChildren(...(agents ?? []).map((value) => h("option", { value })));
  return h("section", { class: "card two-thirds", "aria-label": "The conversation" }, h("h2", {}, "The conversation"),
    pairs(["id", h("span", { class: "id" }, conversation.id)], owner ? ["owner", h("a", { href: `#conversations?${new URLSearchParams({ owner })}` }, plain(owner))] : null,
      ["its model", conversation.model ?? "none"], ["messages", say.whole(conversation.messages.count)], ["tokens", Object.entries(conversation.tokens).map(([encoding, n]) => `${say.whole(n)} ${encoding}`).join(", ")],
      system ? ["system prompt", `${plain(system.slice(0, 120))}${system.length > 120 ? "…" : ""}`] : null, shots?.length ? ["few-shots", say.whole(shots.length)] : null, tools?.length ? ["tools", say.whole(tools.length)] : null,
      agents?.length ? ["authors and audiences", agents.map(plain).join(", ")] : null, summary ? ["summary", `of messages up to ${summary.through_seq}`] : null, recall && recall !== "off" ? ["recall", recall] : null,
      metadata ? ["metadata", plain(JSON.stringify(metadata))] : null, ["begun", new Date(conversation.created_at).toLocaleString("en-GB")], ["last change", new Date(conversation.updated_at).toLocaleString("en-GB")],
      expires ? ["is erased", new Date(expires).toLocaleString("en-GB")] : null));
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
