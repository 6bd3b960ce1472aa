/** The service's status, requested apart from the statistics, because it answers even if the store does not. */
const STATUS_MS = 400, STATUS_PATIENCE_MS = 1000;
const health = { status: null, failure: null, since: 0, refusals: new Map(), draw: () => {} };
const SEVERE = new Set(["down", "full", "failing-over", "read-only", "not-ready"]);

async function refreshStatus() {
  const asked = keyOf("deployment"), before = trouble()?.title;
  try {
    const response = await fetch("status", { headers: asked ? { Authorization: `Bearer ${asked}` } : {}, cache: "no-store", signal: AbortSignal.timeout(STATUS_PATIENCE_MS) });
    if (!response.ok) return;
    const status = await response.json();
    Object.assign(health, { status, failure: null });
    for (const each of status.worker.refusals) health.refusals.set(each.request_id, each);
    for (const old of [...health.refusals.keys()].slice(0, -100)) health.refusals.delete(old);
  } catch {
    health.failure = Object.assign(new Error(SILENCE.detail), { problem: SILENCE });
  }
  if (trouble()?.title !== before) health.since = Date.now();
  if (byId("cards")) health.draw();
}

/** The state of the service as this worker knows it, for people: what `/status` answers to a browser. */
function statusView(main) {
  main.append(h("div", { class: "bar" }, h("div", { class: "verdict", id: "verdict", role: "status" }, h("h1", {}, "Asking…"))), h("div", { class: "grid", id: "cards" }));
  health.draw = drawStatus;
  refreshStatus();
  return { every: STATUS_MS * 5, refresh: refreshStatus };
}

function drawStatus() {
  const now = trouble(), { status } = health;
  if (now) verdict(now.how, now.title, now.lines, sinceThen());
  else if (status) verdict("", `${status.condition.title}.`, [], `Version ${status.version}, up ${say.age(status.uptime_seconds)}, as of ${say.clock(status.at_ms, true)}.`);
  if (status) show([workerCard(status, "Requests a minute, of this worker"), storeCard(), shardsCard(status.store.shards), refusalsCard(), conversationsCards()]);
}

/** What each server of the store serves; why not, where it does not. */
function shardsCard(shards) {
  const verbs = ["read", "append", "erase"], row = (shard) => [shard.name, ...verbs.map((verb) => (shard.serves.includes(verb) ? "yes" : h("span", { class: "bad" }, "no"))), shard.why || NONE];
  return table("whole", "What the store’s servers serve", ["Server", "Reads", "Appends", "Erasures", "Why not"], shards.map(row));
}

/** The current problem, which is shown before findings of the last 15 minutes; null if there is none. */
function trouble() {
  if (health.failure) return { how: "bad", title: `${SILENCE.title}.`, lines: [SILENCE.detail] };
  if (!health.status) return null;
  const { condition: now, store: { media_storage_away: media }, upstreams_away: [upstream] } = health.status;
  if (now.name !== "well") return { how: SEVERE.has(now.name) ? "bad" : "warn", title: `${now.title}.`, lines: [now.look, now.alert ? `Runbook: ${now.alert}.` : ""].filter(Boolean) };
  if (media) return { how: "bad", title: "Pictures and files cannot be stored or read.", lines: [media, "Runbook: SashMediaStorageAway."] };
  if (upstream) return { how: "warn", title: `The ${upstream.upstream}’s endpoint does not serve.`, lines: [upstream.why, "Runbook: SashUpstreamAway."] };
  return null;
}

/** Whether the store cannot be read, so that the deployment's figures are not updated. */
const away = () => ["down", "failing-over"].includes(health.status?.condition.name);
const sinceThen = () => `This page has seen it for ${say.age((Date.now() - health.since) / 1000)}.`;

/** Requests of the worker that answers. */
function workerCard({ worker: { minutes, problems } }, title = "Requests a minute, of this worker alone: the deployment’s figures cannot be read") {
  const points = minutes.map((each) => ({ at: each.at_ms, windows: each.requests, server_errors: each.server_errors, window_p95_milliseconds: null }));
  const failed = minutes.reduce((sum, each) => sum + each.server_errors, 0), all = minutes.reduce((sum, each) => sum + each.requests, 0);
  return card("two-thirds", title, timeline(points, 1, "Requests a minute", "request"),
    pairs(["in the last fifteen minutes", say.whole(all)], ["failed", say.whole(failed), failed ? "bad" : ""], ...problemRows(problems)));
}

const problemRows = (problems) => problems.map((each) => [h("a", { href: `problems/${each.problem}` }, each.problem), say.whole(each.requests)]);

function problemsCard(problems) {
  const rows = problemRows(problems);
  return card("", "Refused and failed, by type", rows.length ? pairs(...rows) : h("p", { class: "small" }, "Nothing was refused in this time."));
}

const conversationLink = (id) => h("a", { href: `#conversation?id=${encodeURIComponent(id)}` }, id);

/** Refused requests with cause and conversation, without message text: equal ones in one row, and folded on a phone. */
function refusalsCard() {
  if (!health.refusals.size) return null;
  const alike = new Map();
  for (const each of [...health.refusals.values()].sort((a, b) => b.at_ms - a.at_ms)) {
    const key = [each.status, each.problem, each.pointer, each.operation, each.tenant, each.conversation].join();
    alike.set(key, { latest: alike.get(key)?.latest ?? each, times: (alike.get(key)?.times ?? 0) + 1 });
  }
  const row = ({ latest: each, times }) => [say.clock(each.at_ms, true), h("span", { class: each.status >= 500 ? "bad" : "" }, String(each.status)), h("span", { class: "cause" }, h("a", { href: `problems/${each.problem}` }, each.title), ...(each.pointer ? [" ", h("code", {}, each.pointer)] : [])), each.operation ?? NONE, each.tenant ?? NONE,
    each.conversation ? conversationLink(each.conversation) : NONE, say.whole(times), h("code", {}, each.request_id)];
  const shown = table("whole", "Refused lately, by the worker that answers", ["Latest", "Status", "Cause", "Operation", "Tenant", "Conversation", "Times", "Request id"], [...alike.values()].slice(0, 12).map(row), 6);
  const [head, rows] = shown.childNodes;
  const open = byId("refusals")?.open ?? !matchMedia("(max-width: 600px)").matches;
  head.append(`: ${say.count(health.refusals.size, "request")}, ${say.count(alike.size, "kind")}`);
  shown.replaceChildren(h("details", { id: "refusals", open }, h("summary", {}, head), rows));
  return shown;
}

function conversationsCards() {
  const seen = health.status?.worker.conversations ?? [];
  if (!seen.length) return [];
  const row = (each) => [conversationLink(each.conversation), each.tenant, say.whole(each.messages), say.short(each.window_tokens), say.clock(each.at_ms)];
  const longest = [...seen].sort((a, b) => b.messages - a.messages), heads = ["Conversation", "Tenant", "Messages", "Window, tokens", "Read at"];
  return [table("half", "Conversations read lately", heads, seen.slice(0, 5).map(row)), table("half", "The longest of the last fifteen minutes", heads, longest.slice(0, 5).map(row))];
}

function tenantsCard(tenants) {
  if (!tenants.length) return null;
  const row = (each) => [each.tenant, say.whole(each.requests), say.whole(each.client_errors), h("span", { class: each.server_errors ? "bad" : "" }, say.whole(each.server_errors)), say.short(each.window_tokens)];
  return table("", "By tenant", ["Tenant", "Requests", "Refused", "Failed", "Window tokens"], tenants.map(row));
}

function storeCard() {
  if (!health.status) return null;
  const { memory, disk, connections, went_back: went, media_erasures_waiting: erasures } = health.status.store, share = memory.max ? memory.used / memory.max : null;
  return card("", "The store", h("p", { class: "lead" }, say.bytes(memory.used), h("span", { class: "small" }, `${memory.max ? `of ${say.bytes(memory.max)}, ${say.share(share)}` : "used; no limit is set"}${away() ? ", when it last answered" : ""}`)),
    memory.max ? stacked([[share > 0.8 ? "c-bad" : "c-accent", "used", memory.used], ["c-quiet", "free", Math.max(0, memory.max - memory.used)]], "Memory", " bytes", say.bytes) : null,
    pairs(["keys", say.short(memory.keys)], ["evicted keys", say.short(memory.evicted_keys), memory.evicted_keys ? "bad" : ""], memory.replication_lag_bytes === null ? null : ["slowest replica behind", say.bytes(memory.replication_lag_bytes)],
      went ? ["went back to an older state", `${say.clock(went.at_ms)}, ${went.to_ms ? `by ${say.age((went.from_ms - went.to_ms) / 1000)}` : "it was empty"}`, "bad"] : null,
      disk ? ["disk free", say.bytes(disk.free)] : null, ["connections", `${connections.idle + connections.busy} up, ${connections.down} down`, connections.down ? "warn" : ""], ["commands waiting", say.whole(connections.waiting)],
      erasures === null ? null : ["erasures of pictures that wait for object storage", say.whole(erasures), erasures ? "bad" : ""]));
}

/** A table whose cells have their column's name, so that a narrow screen can show them one below the other. */
function table(size, title, heads, rows, lefts = 1) {
  const left = (column) => (column && column < lefts ? "left" : null);
  const cell = (value, column) => h(column ? "td" : "th", { scope: column ? null : "row", "data-name": heads[column], class: value === NONE ? "none" : left(column) }, value);
  return card(size, title, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, a table` }, h("table", {},
    h("thead", {}, h("tr", {}, heads.map((name, column) => h("th", { scope: "col", class: left(column) }, name)))), h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map(cell)))))));
}
