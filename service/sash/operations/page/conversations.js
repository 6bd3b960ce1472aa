const listed = { owner: "", model: "", title: "", wanted: "", order: "activity", conversations: [], cursor: null, models: new Map(), asked: "" };
const PAGE = 50;
const has = (text, part) => String(text ?? "").toLowerCase().includes(part.toLowerCase());
const ORDERS = { activity: "Newest activity", fill: "Fullest first", messages: "Most messages" };

/** Conversations of the key's tenant. The service sorts by activity; the page sorts what it has loaded by other columns. While
 * somebody types, the page looks through what it has loaded; the button has the service look through all titles. */
function conversationsView(main, parameters) {
  for (const name of ["owner", "model", "title", "order"]) if (parameters.has(name)) listed[name] = parameters.get(name);
  const field = (name, text, input) => h("div", { class: "field" }, h("label", { for: `l-${name}` }, text), input);
  const typed = (name) => (event) => { listed[name] = event.target.value.trim(); drawList(); };
  main.append(
    h("h1", { class: "visually-hidden" }, "Conversations"),
    h("form", { class: "controls", submit: (event) => { event.preventDefault(); listed.wanted = listed.title; readList(false); } },
      field("owner", "Owner", h("input", { id: "l-owner", value: listed.owner, placeholder: "every owner", spellcheck: "false", autocomplete: "off", autocapitalize: "off", change: (event) => { listed.owner = event.target.value.trim(); readList(false); } })),
      field("model", "Model", h("input", { id: "l-model", value: listed.model, placeholder: "every model", spellcheck: "false", autocomplete: "off", input: typed("model") })),
      field("title", "Title or id", h("input", { id: "l-title", type: "search", value: listed.title, placeholder: "a part of it", autocomplete: "off", input: typed("title") })),
      field("order", "Sorted by", h("select", { id: "l-order", change: typed("order") }, Object.entries(ORDERS).map(([value, name]) => h("option", { value, selected: listed.order === value }, name)))),
      h("button", { class: "primary" }, "Show")),
    h("div", { id: "list", "aria-live": "polite" }));
  listed.wanted = listed.title;
  readList(false);
  return { every: 10000, refresh: () => { if (listed.conversations.length <= PAGE) readList(false); } };
}

async function readList(more) {
  const query = new URLSearchParams({ limit: PAGE });
  if (listed.owner) query.set("owner", listed.owner);
  if (listed.wanted) query.set("title", listed.wanted);
  if (more) query.set("cursor", listed.cursor);
  const question = `conversations?${query}`;
  listed.asked = question;
  try {
    if (!listed.models.size) listed.models = new Map((await api.get("models")).models.map((model) => [model.id, model]));
    const page = await api.get(question);
    if (listed.asked !== question || !byId("list")) return;
    const before = more || listed.wanted ? listed.conversations : [], ids = new Set(before.map(({ id }) => id));
    listed.conversations = [...before, ...page.conversations.filter(({ id }) => !ids.has(id))];
    listed.cursor = page.next_cursor;
  } catch (error) {
    if (listed.asked === question && byId("list")) byId("list").replaceChildren(h("div", { class: "card whole problem" }, h("h2", {}, error.problem?.title ?? "It went wrong"), h("p", {}, error.problem?.detail ?? error.message)));
    return;
  }
  drawList();
}

/** The part of the conversation's own model's budget that its whole history takes, over 1 if it does not fit; null without a model. */
function fillOf({ model, reserve, tokens }) {
  const known = listed.models.get(model);
  if (!known?.context_window) return null;
  const budget = Math.min(known.max_input_tokens ?? known.context_window, known.context_window - (reserve ?? 1024));
  return (tokens[known.encoding] ?? tokens.o200k_base) / Math.max(1, budget);
}

function drawList() {
  if (!byId("list")) return;
  const state = new URLSearchParams(Object.entries({ owner: listed.owner, model: listed.model, title: listed.title, order: listed.order === "activity" ? "" : listed.order }).filter(([, value]) => value));
  history.replaceState(null, "", `#conversations${String(state) && `?${state}`}`);
  const found = listed.conversations.filter((each) => has(each.model, listed.model) && (has(each.id, listed.title) || has(each.metadata?.title, listed.title)));
  if (listed.order === "fill") found.sort((a, b) => (fillOf(b) ?? -1) - (fillOf(a) ?? -1));
  if (listed.order === "messages") found.sort((a, b) => b.messages.count - a.messages.count);
  const rows = found.map((each) => [
    h("a", { href: `#conversation?${new URLSearchParams({ id: each.id })}` }, each.metadata?.title ? plain(each.metadata.title) : h("span", { class: "id" }, each.id)),
    each.owner ? h("button", { type: "button", class: "plain", title: "Only this owner’s", click: () => { listed.owner = byId("l-owner").value = each.owner; readList(false); } }, plain(each.owner)) : NONE,
    each.model ?? NONE, say.whole(each.messages.count), say.short(each.tokens.o200k_base), meter(fillOf(each)), new Date(each.updated_at).toLocaleString("en-GB")]);
  const all = say.whole(listed.conversations.length), newest = listed.cursor ? `${all} newest ` : "";
  const loaded = found.length < listed.conversations.length ? `${say.whole(found.length)} of the ${newest || `${all} `}conversations` : newest ? `The ${newest}conversations` : say.count(found.length, "conversation");
  byId("list").replaceChildren(
    rows.length ? table("whole", loaded, ["Conversation", "Owner", "Model", "Messages", "Tokens", "Of its limit", "Last change"], rows, 3)
      : h("p", { class: "notice" }, listed.conversations.length ? listed.cursor ? "None of the loaded conversations has this model and title: Show looks through all titles, and an id opens under Conversation." : "No conversation has this model and title." : listed.owner ? `${plain(listed.owner)} has no conversations.` : "There are no conversations yet. The first append creates one."),
    listed.cursor ? h("p", { class: "buttons" }, h("button", { type: "button", id: "more", click: () => readList(true) }, "Load more")) : "");
}

/** A share as a bar and a number; what is over the budget is said so. */
function meter(share) {
  if (share === null) return NONE;
  const bar = h("span", { class: share > 1 ? "c-warn" : "c-accent" });
  bar.style.width = `${Math.min(100, Math.max(share * 100, 1))}%`;
  return h("span", { class: "meter", title: share > 1 ? "Its windows leave messages out" : "Its windows hold the whole history" }, h("span", { class: "stack", "aria-hidden": "true" }, bar), say.share(share));
}
