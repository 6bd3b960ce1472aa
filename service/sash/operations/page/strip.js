/** The messages as buttons, oldest first. Of many, the newest and those around the cut; the rest are gaps. */
function strip(window) {
  const lines = window.explain, cut = cutOf(lines), newest = lines.findLast((line) => line.role === "user")?.seq;
  const unlisted = window.kept.messages + window.dropped.messages - lines.length, shown = stretches(lines, cut);
  const unseen = Math.min(unlisted, (lines[0]?.seq ?? 1) - 1); // others are for agents that the view is none of
  const cells = shown.map(([from, to], index) => [
    h("li", { class: "older" }, `${say.whole(from - (shown[index - 1]?.[1] ?? 0) + (index ? 0 : Math.max(0, unseen)))} ${index ? "between" : "older"}`),
    lines.slice(from, to).map((line) => [line.seq === cut ? h("li", { class: "cut", title: "Here history begins", "aria-hidden": "true" }) : null, h("li", {}, cell(window, line, newest))])]);
  if (shown[0]?.[0] === 0 && unseen <= 0) cells[0].shift();
  return h("ol", { class: "strip", id: "strip" }, cells);
}

/** The stretches of lines that the strip shows, as [from, to): the newest, and those on both sides of the cut. */
function stretches(lines, cut) {
  const most = innerWidth > 700 ? 120 : 60;
  if (lines.length <= most) return lines.length ? [[0, lines.length]] : [];
  const tail = lines.length - most / 2, at = lines.findIndex((line) => line.seq === cut);
  const from = Math.max(0, at - most / 4), to = at + most / 4;
  if (at < 0) return [[lines.length - most, lines.length]];
  return to >= tail ? [[from, lines.length]] : [[from, to], [tail, lines.length]];
}

function cell(window, line, newest) {
  const cutDocuments = window.grounding.truncated && line.seq === newest, trimmed = cutDocuments || line.trimmed;
  const classes = [`r-${line.role}`, line.kept ? "" : "out", line.reason === "always: pinned" ? "pinned" : "", line.score === undefined ? "" : "recalled", trimmed ? "trimmed" : ""];
  const about = `Message ${line.seq}, ${line.role}, ${say.count(line.tokens, "token")}, ${fateOf(window, line)}${cutDocuments ? "; its documents were cut" : ""}${savedOn(line)}`;
  const button = h("button", { type: "button", class: classes.filter(Boolean).join(" "), title: about, "aria-label": about, "data-seq": line.seq, tabindex: "-1", click: () => choose(line.seq, true), keydown: walk, focus: () => choose(line.seq, false) });
  const wide = 16 + 16 * Math.log2(1 + (line.tokens + (line.trimmed ?? 0)) / 8), number = String(line.seq);
  button.style.width = `${wide}px`;
  if (wide > 8 + 7 * number.length) button.append(number);
  return button;
}

/** The message's tokens that are not sent, as text; empty if it is sent whole. */
function savedOn(line) {
  return (line.trimmed ? `; cut, ${say.whole(line.trimmed)} tokens saved` : "") + (line.reasoning_left_out ? `; ${say.whole(line.reasoning_left_out)} tokens of reasoning not sent` : "");
}

/** Why messages are left out one by one, on both sides of the cut. */
const ALONE = new Set(["does not fit, skipped", "said again later", "a call without its results", "a result without its call, or with a newer one", "a reply in progress", "not sent: left out by a client", "a reply that was interrupted before a word came", "a provider's compaction"]);

/** The first seq behind the messages that are left out for their age; null if none is. */
function cutOf(lines) {
  const last = lines.findLastIndex((line) => !line.kept && !ALONE.has(line.reason));
  return last < 0 ? null : (lines[last + 1]?.seq ?? null);
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
  const told = found.window.explain.find((each) => each.seq === seq), line = told ?? { kept: false, tokens: null };
  let message = null;
  try {
    message = await api.get(`conversations/${encodeURIComponent(looked.id)}/messages/${seq}`);
  } catch {
    message = null;
  }
  if (found.selected !== seq || !byId("detail")) return;
  byId("detail").replaceChildren(
    h("div", {}, h("h2", {}, `Message ${seq}`), h("p", { class: "fate" }, sentenceOf(fateOf(found.window, told, seq))), pairs(message ? ["id", h("span", { class: "id" }, message.id)] : null, message?.status ? ["status", message.status.replace("_", " "), message.status === "completed" ? "" : "warn"] : null, ["role", line.role ?? message?.message.role], message?.author ? ["author", plain(message.author)] : null, message?.audience ? ["for", message.audience.map(plain).join(", ")] : null, ["tokens", say.whole(line.tokens ?? message?.tokens[found.window.encoding])], line.score === undefined ? null : ["score", String(line.score)],
      line.reasoning ? ["reasoning sent", `${say.whole(line.reasoning)} tokens`] : null, line.reasoning_left_out ? ["reasoning not sent", `${say.whole(line.reasoning_left_out)} tokens`] : null,
      line.trimmed ? ["cut away", `${say.whole(line.trimmed)} tokens`] : null,
      message?.grounding ? ["documents", `${message.grounding.documents.length}, ${say.whole(message.grounding_tokens?.[found.window.encoding])} tokens`] : null,
      line.mended ? ["changed for the provider", line.mended.map((reason) => reason.replaceAll("_", " ")).join(", "), "warn"] : null,
      ...documentRows(line.documents),
      message?.pinned ? ["pinned", "yes"] : null, message?.metadata ? ["metadata", plain(JSON.stringify(message.metadata))] : null, message ? ["came", new Date(message.created_at).toLocaleString("en-GB")] : null)),
    h("pre", { tabindex: "0", role: "region", "aria-label": "Text of the message" }, message ? textOf(message.message) : "It could not be read.", picturesOf(message?.message)));
}

const sentenceOf = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

/** What became of each document; of many the first, and how many more. */
function documentRows(documents) {
  const rows = (documents ?? []).slice(0, 8).map((each) => [`document ${plain(each.id ?? "")}`, each.reason === "fits" ? each.outcome : `${each.outcome}: ${each.reason}`, each.outcome === "sent" ? "" : "warn"]);
  return documents?.length > rows.length ? [...rows, ["more documents", say.whole(documents.length - rows.length)]] : rows;
}

/** The pictures inside a message. One that is kept elsewhere, or at an address, is named in the text alone. */
function picturesOf(message) {
  const urls = (Array.isArray(message?.content) ? message.content : []).map((part) => part.image_url?.url ?? "");
  return urls.filter((url) => /^data:image\/(png|jpeg|gif|webp);base64,/.test(url)).map((src) => h("img", { src, alt: "A picture of the message" }));
}

const PARTS = { image_url: "a picture", input_audio: "a sound", file: "a file" };

function textOf(message) {
  const content = typeof message.content === "string" ? message.content : (message.content ?? []).map((part) => part.text ?? `[${PARTS[part.type] ?? part.type}]`).join("\n");
  const calls = (message.tool_calls ?? []).map((call) => `→ ${call.function?.name ?? call.custom?.name}(${call.function?.arguments ?? call.custom?.input})`);
  const thoughts = [message.reasoning_content ?? message.reasoning, ...(message.thinking_blocks ?? []).map((block) => block.thinking ?? "[redacted]")];
  return [...thoughts.filter(Boolean).map((text) => `(thinking) ${text}`), content, ...calls].filter(Boolean).map(plain).join("\n") || "(no text)";
}
