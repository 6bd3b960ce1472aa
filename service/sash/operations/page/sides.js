const ROW = 34, BEYOND = 6, MOST_READ = 8, PAGE_OF_TEXTS = 60;
const sides = { id: "", top: null, texts: new Map(), asked: new Set(), waiting: null, piece: null };

/** The log as the person sees it beside the request as the model gets it. Both are lists of any length. */
function sidesCard(window, { first_seq: first, last_seq: last }) {
  if (sides.id !== window.conversation_id) Object.assign(sides, { id: window.conversation_id, top: null, texts: new Map(), asked: new Set(), piece: null });
  if (sides.version !== window.version) Object.assign(sides, { version: window.version, asked: new Set() }); // a text may have changed
  const lines = new Map(window.explain.map((line) => [line.seq, line])), cut = cutOf(window.explain), pieces = piecesOf(window.request);
  const seen = longList("As the person sees it", last ? last - first + 1 : 0, (at) => logRow(window, lines, cut, first + at), (top) => { sides.top = top; readTexts(first, last); });
  const sent = longList("As the model gets it", pieces.length, (at) => pieceRow(pieces[at], at, () => { sides.piece = at; showPiece(pieces[at]); }));
  const go = (name, at) => h("button", { type: "button", click: () => seen.show(at) }, name);
  requestAnimationFrame(() => { seen.begin(sides.top); sent.begin(null); });
  return h("section", { class: "card whole", "aria-label": "The log and the request" },
    h("div", { class: "sides" },
      h("div", {}, h("div", { class: "side" }, h("h2", {}, `As the person sees it: ${say.count(last ? last - first + 1 : 0, "message")}`), h("p", { class: "buttons" }, go("Oldest", 0), cut ? go("The cut", cut - first) : null, go("Newest", last - first))), seen.box),
      h("div", {}, h("div", { class: "side" }, h("h2", {}, `As the model gets it: ${say.count(pieces.length, "part")}`)), sent.box)),
    h("pre", { id: "piece", class: "command request", tabindex: "0", role: "region", "aria-label": "A part of the request as JSON", hidden: true }));
}

/** A scrolling list of `count` rows of one height, of which only those in sight exist. `draw(at)` returns a row. */
function longList(label, count, draw, moved = () => {}) {
  const rows = h("div", { class: "rows" });
  const box = h("div", { class: "long", role: "region", "aria-label": label, tabindex: "0", scroll: () => paint() }, rows);
  for (const element of [rows, box]) element.style.height = `${count * ROW + (element === box ? 2 : 0)}px`; // its border
  const paint = () => {
    const from = Math.max(0, Math.floor(box.scrollTop / ROW) - BEYOND), to = Math.min(count, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + BEYOND);
    const held = rows.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    rows.replaceChildren(...Array.from({ length: Math.max(0, to - from) }, (_, index) => {
      const row = draw(from + index);
      row.style.top = `${(from + index) * ROW}px`;
      row.dataset.at = from + index;
      return row;
    }));
    if (held !== null) rows.querySelector(`[data-at="${held}"]`)?.focus({ preventScroll: true });
    moved(box.scrollTop);
  };
  return { box, show: (at) => { box.scrollTop = at * ROW - box.clientHeight / 2; }, begin: (top) => { box.scrollTop = top ?? count * ROW; paint(); } };
}

/** A message of the log: its number, its role, its text once it is read, and what became of it. */
function logRow(window, lines, cut, seq) {
  const line = lines.get(seq), text = sides.texts.get(seq);
  const fate = fateOf(window, line, seq), classes = ["row", line?.kept ? "" : "out", seq === cut ? "begins" : ""];
  return h("button", { type: "button", class: classes.filter(Boolean).join(" "), "data-log": seq, click: () => { found.held = true; select(seq, false); byId("detail").scrollIntoView({ block: "nearest" }); } },
    h("span", { class: "number" }, String(seq)), h("span", { class: `chip r-${text?.role ?? line?.role ?? "system"}` }, text?.role ?? line?.role ?? "…"),
    text?.author ? h("span", { class: "number" }, plain(text.author)) : null, h("span", { class: "words" }, text?.words ?? "…"), h("span", { class: "fate", title: fate }, fate.replace(/^left out: |^sent, (always: )?/, "")));
}

/** What became of a message, in words and with the figures that decided it. */
function fateOf(window, line, seq = line.seq) {
  const budget = `the budget of ${say.whole(window.budget)}`;
  const ended = { budget: `older than ${budget}`, limit: "beyond the limit that was asked for", summary: "the summary stands for it", bytes: "older than the provider’s bytes of a request", price: "older than its price allows", horizon: "further back than a view looks" };
  if (!line && looked.view && (window.stop_reason === "complete" || seq > window.explain[0]?.seq)) return "left out: for other agents";
  if (!line) return `left out: ${ended[window.stop_reason] ?? "older than what the window looked at"}`;
  if (line.kept) return line.reason === "fits" ? "sent" : `sent, ${line.reason}`;
  const why = { "does not fit": ended.budget, "does not fit, skipped": `larger than what was free of ${budget}` }[line.reason] ?? line.reason;
  return `left out: ${why}`;
}

/** Read the texts of rows in sight that are not known yet, once scrolling rests. */
function readTexts(first, last) {
  clearTimeout(sides.waiting);
  sides.waiting = setTimeout(async () => {
    const rows = [...document.querySelectorAll("[data-log]")].map((row) => Number(row.dataset.log)).filter((seq) => !sides.asked.has(seq));
    if (!rows.length) return;
    rows.forEach((seq) => sides.asked.add(seq));
    const { id } = sides, path = `conversations/${encodeURIComponent(id)}/messages`;
    const isOf = (message) => { if (sides.id === id) sides.texts.set(message.seq, { role: message.message.role, author: message.author, words: textOf(message.message).slice(0, 200) }); };
    await (pageOf(rows, first, last, path) ?? oneByOne(rows, path)).then((messages) => messages.forEach(isOf));
    document.querySelector(".long")?.dispatchEvent(new Event("scroll"));
  }, 80);
}

/** The messages at an end of the log in one request; null where these rows are at neither. */
function pageOf(rows, first, last, path) {
  const [order, limit] = [["desc", last - Math.min(...rows) + 1], ["asc", Math.max(...rows) - first + 1]].find(([, count]) => count <= PAGE_OF_TEXTS) ?? [];
  return order ? api.get(`${path}?order=${order}&limit=${limit}`).then(({ messages }) => messages, () => oneByOne(rows, path)) : null;
}

/** The messages of these rows, some at a time. */
async function oneByOne(rows, path) {
  const messages = [], left = [...rows];
  const next = async () => {
    for (let seq = left.pop(); seq !== undefined; seq = left.pop()) messages.push(await api.get(`${path}/${seq}`).catch(() => ({ seq, message: { content: "It could not be read." } })));
  };
  await Promise.all(Array.from({ length: MOST_READ }, next));
  return messages;
}

/** A request's system text, tools and messages, in every form, in order. */
function piecesOf(request) {
  const system = request.system ?? request.instructions ?? request.systemInstruction ?? request.system_instruction ?? request.config?.system_instruction;
  const tools = request.tools ?? request.toolConfig ?? request.config?.tools;
  const messages = request.messages ?? request.input ?? request.contents ?? [];
  return [system ? { role: "system", native: system } : null, tools ? { role: "tools", native: tools } : null,
    ...(Array.isArray(messages) ? messages : [messages]).map((native) => ({ role: native.role ?? native.type ?? "user", native }))].filter(Boolean);
}

const WORDS = new Set(["text", "content", "thinking", "reasoning_content", "arguments", "output", "name", "summary", "refusal", "description"]);
const ARGUMENTS = new Set(["input", "args", "arguments"]);

/** The texts inside a part of a request, joined. */
function wordsIn(native, name = "text") {
  if (typeof native === "string") return WORDS.has(name) ? native : "";
  if (Array.isArray(native)) return native.map((each) => wordsIn(each, name)).filter(Boolean).join(" ");
  if (native && typeof native === "object" && ARGUMENTS.has(name)) return JSON.stringify(native);
  return native && typeof native === "object" ? Object.entries(native).map(([key, value]) => wordsIn(value, key)).filter(Boolean).join(" ") : "";
}

function pieceRow({ role, native }, at, choose) {
  const shown = { model: "assistant", function_call: "assistant", reasoning: "assistant", function_call_output: "tool", tools: "tool" }[role] ?? role;
  return h("button", { type: "button", class: "row", "data-piece": at, click: choose }, h("span", { class: `chip r-${shown}` }, role.replaceAll("_", " ")), h("span", { class: "words" }, plain(wordsIn(native).slice(0, 200) || JSON.stringify(native).slice(0, 200))));
}

function showPiece({ native }) {
  const place = byId("piece");
  place.hidden = false;
  place.textContent = plain(typeof native === "string" ? native : JSON.stringify(native, null, 2));
  place.scrollIntoView({ block: "nearest" });
}
