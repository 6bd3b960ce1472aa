const RANGES = { quarter: "Last 15 minutes", hour: "Last hour", day: "Last day", month: "Last 30 days", start: "Since the start" };
const BRIEFLY = { quarter: "15 min", hour: "1 hour", day: "1 day", month: "30 days", start: "All" };
const IN_MINUTES = new Set(["quarter", "hour"]);
const shown = { range: "quarter", model: "", stats: null, at: 0 };

function deploymentView(main) {
  main.append(
    h("div", { class: "bar" },
      h("div", { class: "verdict", id: "verdict", role: "status" }, h("h1", {}, "Asking…")),
      h("fieldset", { class: "choice", id: "ranges" }, h("legend", { class: "visually-hidden" }, "Time range"),
        Object.entries(RANGES).map(([range, name]) => h("label", {},
          h("input", { type: "radio", name: "range", value: range, checked: shown.range === range, change: () => { shown.range = range; drawDeployment(); } }), h("span", { class: "fully" }, name), h("span", { class: "briefly", "aria-hidden": "true" }, BRIEFLY[range])))),
      h("div", { class: "field" }, h("label", { for: "model" }, "Model"),
        h("select", { id: "model", change: (event) => { shown.model = event.target.value; drawDeployment(); } }, h("option", { value: "" }, "All models")))),
    h("div", { class: "grid", id: "cards" }));
  health.draw = drawDeployment;
  refreshDeployment();
  refreshStatus();
  return { every: 5000, refresh: refreshDeployment, quick: refreshStatus };
}

async function refreshDeployment() {
  try {
    shown.stats = await api.get("stats");
    shown.at = Date.now();
  } catch (error) {
    shown.failure = error;
    if (byId("cards")) drawDeployment();
    return;
  }
  shown.failure = null;
  if (byId("cards")) drawDeployment();
}

/** If there is no answer, say so above the last figures. */
function sayFailure() {
  const { problem } = shown.failure;
  verdict(problem.status === 401 ? "warn" : "bad", `${problem.title}.`, [problem.detail], older());
}

const older = () => (shown.stats && (shown.failure || health.failure || away()) ? `The figures below are from ${new Date(shown.at).toLocaleTimeString("en-GB")}.` : undefined);

/** The first line: the current problem, else a verdict on the time range shown. */
function sayFirst(range, found) {
  const now = trouble();
  if (now) return verdict(now.how, now.title, now.lines, health.failure ? older() : [sinceThen(), older()].filter(Boolean).join(" "));
  if (shown.failure) return sayFailure();
  const { all, requests } = range, served = `${say.count(all.windows, "window")} ${shown.range === "start" ? `since ${new Date(range.since).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" })}` : `in the ${RANGES[shown.range].toLowerCase()}`}`;
  if (!all.windows && !found.length) return verdict("", "Nothing yet.", [], `No window was served in this time${requests.requests ? `; ${say.count(requests.requests, "request")} came` : ""}.`);
  const title = !found.length ? "All is well." : found.length === 1 ? "One thing to look at." : `${["", "", "Two", "Three", "Four", "Five"][found.length] ?? found.length} things to look at.`;
  return verdict(found[0]?.[0] ?? "", title, found.map(([, line]) => line), `${served}; the median took ${say.milliseconds(requests.window_milliseconds.p50 ?? all.milliseconds.p50)} ms.`);
}

function verdict(how, title, lines, note) {
  const place = byId("verdict");
  const text = [title, ...lines, note].join("|");
  if (place.dataset.text === text) return;
  place.dataset.text = text;
  place.className = `verdict ${how}`;
  place.replaceChildren(h("h1", {}, title), ...(note ? [h("p", {}, note)] : []), ...(lines.length ? [h("ul", {}, lines.map((line) => h("li", {}, withRunbook(line))))] : []));
}

/** A line; its alert's name, if it has one, is a link to the runbook. */
function withRunbook(line) {
  const [, alert] = line.match(/^Runbook: (\w+)\.$/) ?? [];
  return alert ? ["Runbook: ", h("a", { href: `runbook#${alert.toLowerCase()}` }, alert), "."] : line;
}

/** Findings for an operator, worst first: [severity, sentence]. */
function concerns(range) {
  const { requests, all } = range, found = [];
  const failed = requests.server_errors, refused = all.does_not_fit;
  if (failed) found.push([failed / requests.requests > 0.001 ? "bad" : "warn", `${say.count(failed, "request")} of ${say.whole(requests.requests)} failed on our side.`]);
  if (all.prediction.under) found.push(["bad", `${say.count(all.prediction.under, "request")} cost more than predicted, by ${say.count(all.prediction.under_tokens, "token")} in all: such a window can overflow.`]);
  const slow = Math.max(requests.window_milliseconds.p95 ?? 0, all.milliseconds.p95 ?? 0); // read, or built behind an append
  if (slow > 100 && all.windows >= 20) found.push(["warn", `Windows are slow: one in twenty takes over ${say.milliseconds(slow)} ms.`]);
  if (refused) found.push(["warn", `${say.count(refused, "window")} could not be made: what must be in ${refused === 1 ? "it" : "them"} is over the budget.`]);
  const recent = range.timeline.slice(-6, -1);
  if (IN_MINUTES.has(shown.range) && all.windows > 60 && recent.every((point) => !point.windows) && !range.timeline.at(-1).windows) found.push(["warn", "No window was served in the last five minutes."]);
  return found.sort(([a], [b]) => a.localeCompare(b));
}

/** The view before statistics were ever read: the problem, and this worker's own figures. */
function drawWithoutStatistics() {
  if (trouble() || shown.failure) sayFirst(null, []);
  const denied = shown.failure?.problem.status === 401;
  if (health.status && !denied && (shown.failure || trouble())) show([workerCard(health.status), storeCard(), refusalsCard(), conversationsCards()]);
}

/** Replace cards that have changed. Others stay, so that a reader keeps focus and scroll position. */
function show(cards) {
  const place = byId("cards"), made = h("div", {}, cards.flat().filter(Boolean));
  const before = place.childNodes;
  if (made.childNodes.length === before.length && [...made.childNodes].every((node, index) => node.isEqualNode(before[index]))) return;
  const named = (each) => each?.getAttribute("aria-label") ?? each?.href, focused = place.contains(document.activeElement) ? named(document.activeElement) : null;
  place.replaceChildren(...made.childNodes);
  if (focused) [...place.querySelectorAll("a, [tabindex]")].find((each) => named(each) === focused)?.focus({ preventScroll: true });
}

function drawDeployment() {
  if (!shown.stats) {
    drawWithoutStatistics();
    return;
  }
  const range = shown.stats[shown.range];
  const names = range.models.map((each) => each.model);
  const select = byId("model");
  if (select.dataset.names !== names.join()) {
    select.dataset.names = names.join();
    select.replaceChildren(h("option", { value: "" }, "All models"), ...names.map((name) => h("option", { value: name, selected: name === shown.model }, name)));
  }
  if (shown.model && !names.includes(shown.model)) shown.model = "";
  const figures = range.models.find((each) => each.model === shown.model) ?? range.all;
  const found = concerns(range);
  sayFirst(range, found);
  const few = !range.all.windows && !found.length;
  const figured = few ? [shown.stats.start.all.windows ? null : firstCard()] : [fullCard(figures), leftOutCard(figures), predictionCard(figures), savedCard(figures), reasoningCard(figures), modelsCard(range)];
  show([(shown.failure || away()) && health.status ? workerCard(health.status) : null, rateCard(range), numbersCard(range, figures), storeCard(), eventsCard(range.requests), receiptsCard(range.requests), toolsCard(range.requests), viewsCard(figures), problemsCard(range.requests.problems), tenantsCard(range.tenants), refusalsCard(), conversationsCards(), figured]);
}

const card = (size, title, ...children) => h("section", { class: `card ${size}`, "aria-label": title }, h("h2", {}, title), ...children);
const pairs = (...rows) => h("dl", { class: "pairs" }, rows.filter(Boolean).map(([name, value, how]) =>
  value === undefined ? h("dt", { class: "part" }, name) : [h("dt", {}, name), h("dd", how ? { class: how } : {}, value)]));

/** Pairs in columns: a row with a name alone begins one. */
function grouped(...rows) {
  const starts = rows.flatMap((row, at) => (row.length === 1 ? [at] : []));
  return h("div", { class: "groups" }, starts.map((from, at) => pairs(...rows.slice(from, starts[at + 1]))));
}

function rateCard(range) {
  if (!range.timeline.length) return card("two-thirds", "Windows", h("p", { class: "lead" }, say.count(range.all.windows, "window")), h("p", { class: "small" }, `since ${new Date(range.since).toLocaleString("en-GB")}, ${say.rate((range.all.windows * 60) / range.seconds)} a minute on average. Choose the last hour or day to see when.`));
  const perMinute = IN_MINUTES.has(shown.range) ? 1 : shown.range === "month" ? 1440 : 60;
  return card("two-thirds", `Windows a minute, all models${{ day: ", by the hour", month: ", by the day" }[shown.range] ?? ""}`, timeline(range.timeline, perMinute, "Windows a minute"),
    h("h2", {}, "Answering with a window, milliseconds: 95 % take less"), latency(range.timeline));
}

function numbersCard(range, figures) {
  const recent = range.timeline.slice(-6);
  const one = figures !== range.all, lately = IN_MINUTES.has(shown.range) && !one;
  const minutes = lately ? (Date.parse(shown.stats.at) - Date.parse(recent[0].at)) / 60000 : range.seconds / 60;
  const windows = lately ? recent.reduce((sum, point) => sum + point.windows, 0) : figures.windows;
  const cell = (name, value, unit, note) => h("div", {}, h("dt", {}, name), h("dd", {}, value, unit && value !== NONE ? h("small", {}, unit) : null), h("dd", { class: "note" }, note));
  const { requests } = range;
  const all = one ? "all models: " : ""; // a request is not counted by model
  const measured = (time) => (time.p50 === null ? "none in this time" : `95 % within; the median is ${say.milliseconds(time.p50)}`);
  const read = !one && requests.window_milliseconds.p50 !== null; // else windows came with appends alone, or of one model
  return card("glance", "At a glance", h("dl", { class: "figures" },
    cell("Windows a minute", say.rate(windows / minutes), "", lately ? "last five minutes" : "on average"),
    read ? cell("Answering with one", say.milliseconds(requests.window_milliseconds.p95), "ms", measured(requests.window_milliseconds))
      : cell("Building one", say.milliseconds(figures.milliseconds.p95), "ms", measured(figures.milliseconds)),
    cell("Appending", say.milliseconds(requests.append_milliseconds.p95), "ms", `${all}${measured(requests.append_milliseconds)}`),
    cell("Failed", say.share(requests.requests ? requests.server_errors / requests.requests : 0), "", `${all}${say.short(requests.server_errors)} of ${say.short(requests.requests)}; ${say.short(requests.client_errors)} refused as wrong`),
    cell("Tokens a window", say.short(figures.tokens.p50), "", figures.windows ? `the median; 95 % under ${say.short(figures.tokens.p95)}` : "no window"),
    cell("Budget used", say.share(figures.fill.p50), "", figures.windows ? `the median; 95 % ${figures.fill.p95 < 0.001 ? "too" : `under ${say.share(figures.fill.p95)}`}` : "no window")));
}

/** Followers of conversations; nothing where nobody follows. */
function eventsCard({ events }) {
  const followers = health.status?.worker.followers ?? 0;
  if (!events.sent && !followers) return null;
  return card("", "Followers of conversations", h("p", { class: "lead" }, say.short(events.sent), h("span", { class: "small" }, ` event${events.sent === 1 ? "" : "s"} sent`)),
    pairs(["open streams, of this worker", say.whole(followers)], ["from a change to its event, median", `${say.milliseconds(events.delay_milliseconds.p50)} ms`],
      ["95 % take less than", `${say.milliseconds(events.delay_milliseconds.p95)} ms`], ["cut because they were too slow", say.whole(events.slow_followers), events.slow_followers ? "warn" : ""]));
}

/** Windows that were made again from their receipts, and why others were not. */
function receiptsCard({ receipts }) {
  const gone = receipts.gone.reduce((sum, { windows }) => sum + windows, 0);
  if (!receipts.again && !gone) return null;
  return card("", "Windows asked for again", h("p", { class: "lead" }, say.short(receipts.again), h("span", { class: "small" }, " made again, byte for byte")),
    pairs(["given with windows", say.short(receipts.given)], ["could not be made", say.whole(gone)], ...receipts.gone.map(({ reason, windows }) => [`because: ${reason}`, say.whole(windows)])));
}

/** Calls of the history tools; nothing where no model has them. */
function toolsCard({ tools }) {
  const calls = tools.searches + tools.reads;
  if (!calls) return null;
  return card("", "History read by models", h("p", { class: "lead" }, say.short(calls), h("span", { class: "small" }, ` call${calls === 1 ? "" : "s"} of the history tools`)),
    pairs(["searches", say.short(tools.searches)], ["messages read", say.short(tools.reads)], ["over MCP", say.short(tools.over_mcp)], ["tokens of an answer", say.short(tools.tokens / calls)]));
}

/** Windows of what one of several agents sees; nothing where no conversation has several. */
function viewsCard(figures) {
  if (!figures.views) return null;
  return card("", "Views of several agents", h("p", { class: "lead" }, say.short(figures.views), h("span", { class: "small" }, ` window${figures.views === 1 ? "" : "s"} of one agent's view`)),
    pairs(["messages for others, left out", say.short(figures.view_messages_unseen)], ["ended where a view ends", say.short(figures.stop_reasons.horizon)]));
}

function fullCard(figures) {
  const reasons = figures.stop_reasons;
  return card("", "How full windows are", fullness(figures.fill.histogram),
    pairs(["held the whole history", say.short(reasons.complete)], ["ended by the budget", say.short(reasons.budget)],
      reasons.limit ? ["ended by a limit", say.short(reasons.limit)] : null, reasons.summary ? ["ended by a summary", say.short(reasons.summary)] : null,
      reasons.bytes ? ["ended by the provider's bytes", say.short(reasons.bytes)] : null, reasons.images ? ["whole, without all pictures", say.short(reasons.images)] : null,
      reasons.price ? ["ended by the price", say.short(reasons.price)] : null));
}

function firstCard() {
  const line = `curl '${location.origin}/conversations/first/messages?model=gpt-4o-mini' \\\n${keyOf("deployment") ? "  -H 'Authorization: Bearer …' \\\n" : ""}  -H 'Content-Type: application/json' \\\n  -d '{"messages": [{"message": {"role": "user", "content": "Hello"}}]}'`;
  return card("whole", "A first window", h("p", {}, "Append a turn and read its window in one call:"), h("pre", { class: "command", tabindex: "0", role: "region", "aria-label": "A command" }, h("code", {}, line)),
    h("p", { class: "small" }, "Then look at it: ", h("a", { href: "#conversation?id=first&model=gpt-4o-mini" }, "the conversation “first”"), "."));
}

function leftOutCard(figures) {
  const { kept_messages: kept, dropped_messages: dropped } = figures;
  const total = kept + dropped;
  return card("", "What was left out", h("p", { class: "lead" }, total ? say.share(dropped / total) : NONE, h("span", { class: "small" }, " of messages")),
    stacked([["c-accent", "sent", kept], ["c-quiet", "left out", dropped]], "Messages"),
    pairs(["tokens left out", say.short(figures.dropped_tokens)],
      ["pictures and files sent as lines", say.short(figures.dropped_images)], ["their bytes", say.bytes(figures.dropped_media_bytes)],
      ["documents cut for want of room", say.short(figures.grounding_truncations)], ["their tokens", say.short(figures.grounding_tokens_trimmed)],
      ["windows that did not fit", say.short(figures.does_not_fit), figures.does_not_fit ? "warn" : ""]));
}

function savedCard(figures) {
  const { saved, stable, sliding, cache, cost } = figures;
  const known = Object.values(saved).filter((value) => value !== null);
  return card("whole", "What was saved", h("p", { class: "lead" }, known.length ? say.dollars(known.reduce((a, b) => a + b, 0)) : NONE), h("p", { class: "small" }, "at list prices of input tokens"),
    grouped(["Documents not sent again"], ["tokens", say.short(figures.grounding_tokens_saved)], ["worth", say.dollars(saved.documents_usd)],
      ["Prompt cache, stable cuts"], ["tokens it can serve", say.short(stable.reused_tokens)], ["worth up to", say.dollars(saved.prompt_cache_usd)],
      ["of a window, stable", say.share(stable.share)], ["of a window, sliding", say.share(sliding.share)],
      ["Shorter windows"], ["left out by cuts", say.dollars(saved.cuts_usd)], ["below a price tier", say.dollars(saved.tiers_usd)],
      ["Prompt cache, as reported"], ["served, of billed tokens", say.share(cache.hit_share)], ["saved by reading", say.dollars(cache.saved_usd)], ["extra cost of writing", say.dollars(cache.lost_usd)],
      ...cache.misses.map(({ reason, count }) => [`not read: ${reason.replaceAll("_", " ")}`, say.short(count)]),
      ["Cost of input"], ["billed, where cached tokens are told", say.dollars(cost.billed_usd)]));
}

function predictionCard(figures) {
  const { prediction } = figures;
  if (!prediction.reports) return card("", "Predicted against billed", h("p", { class: "small" }, "Nobody reported usage in this time. ", h("code", {}, "POST …/usage"), " with what the provider billed shows here how exact counts are."));
  const exact = prediction.exact / prediction.reports;
  return card("two-thirds", "Predicted against billed", h("p", { class: "lead" }, say.share(exact), h("span", { class: "small" }, ` of ${say.count(prediction.reports, "report")} exact`)),
    stacked([["c-accent", "exact", prediction.exact], ["c-soft", "predicted more", prediction.over], ["c-bad", "predicted less", prediction.under]], "Reports"),
    pairs(["off by, on average", `${prediction.mean_error_tokens > 0 ? "+" : ""}${prediction.mean_error_tokens} tokens`], ["as a part of what was billed", say.share(prediction.mean_error_share)], ["tokens short in all", say.whole(prediction.under_tokens), prediction.under_tokens ? "bad" : ""]));
}

const CAUSES = { prefix: "something before it has changed", model: "another model", organization: "another organization", end_user: "another end user", turn: "its turn is over", other: "another cause" };

/** Reasoning that providers dropped, as reported; nothing without any. */
function reasoningCard({ reasoning }) {
  if (!reasoning.dropped) return null;
  const rows = Object.entries(CAUSES).filter(([cause]) => reasoning[cause]).map(([cause, name]) => [name, say.whole(reasoning[cause]), cause === "prefix" ? "warn" : ""]);
  return card("", "Reasoning that providers dropped", h("p", { class: "lead" }, say.short(reasoning.dropped), h("span", { class: "small" }, " blocks")), pairs(...rows));
}

function modelsCard(range) {
  const heads = ["Model", "Windows", "Tokens, p95", "Fill, p95", "Left out", "Did not fit", "Stable reuse", "Saved", "Cache read", "Saved by it", "Lost to writes", "Off by"];
  const row = (each) => {
    const total = each.kept_messages + each.dropped_messages;
    const saved = Object.values(each.saved).filter((value) => value !== null);
    return [each.model, say.whole(each.windows), say.short(each.tokens.p95), say.share(each.fill.p95), total ? say.share(each.dropped_messages / total) : NONE,
      each.does_not_fit ? h("span", { class: "warn" }, say.whole(each.does_not_fit)) : "0", say.share(each.stable.share), saved.length ? say.dollars(saved.reduce((a, b) => a + b, 0)) : NONE,
      say.share(each.cache.hit_share), each.cache.billed_tokens ? say.dollars(each.cache.saved_usd) : NONE, each.cache.billed_tokens ? say.dollars(each.cache.lost_usd) : NONE,
      each.prediction.reports ? say.share(each.prediction.mean_error_share) : NONE];
  };
  return range.models.length ? table("whole", "By model", heads, range.models.map(row)) : null;
}
