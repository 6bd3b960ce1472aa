const VIEWS = { deployment: deploymentView, status: statusView, conversations: conversationsView, conversation: conversationView };
let view = null, timer = null, quick = null;

/** Show the view of the address. */
function route() {
  const [name, query] = location.hash.slice(1).split("?");
  const which = VIEWS[name] ? name : location.pathname.endsWith("/status") ? "status" : "deployment";
  const parameters = new URLSearchParams(query);
  if (which === "deployment") {
    if (RANGES[parameters.get("range")]) shown.range = parameters.get("range");
    if (parameters.has("model")) shown.model = parameters.get("model");
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${which}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  document.title = { deployment: "Sash", status: "Sash: status", conversations: "Sash: conversations", conversation: "Sash: a conversation" }[which];
  if (api.view !== which) api.declined = false;
  api.view = which;
  byId("key").textContent = KEYS[which].name;
  byId("key").hidden = keyOf(which) === null;
  clearInterval(timer);
  clearInterval(quick);
  view?.leave?.();
  byId("main").replaceChildren();
  view = VIEWS[which](byId("main"), parameters);
  timer = setInterval(() => { if (!document.hidden) view.refresh(); }, view.every);
  if (view.quick) quick = setInterval(() => { if (!document.hidden) view.quick(); }, STATUS_MS);
}

/** Shows the figures' age, and marks figures that are too old. */
function tick() {
  const clock = byId("clock"), old = shown.at ? Math.round((Date.now() - shown.at) / 1000) : 0;
  const stale = Boolean(shown.failure) || old > 30;
  clock.hidden = !byId("cards");
  const { status } = health, told = status ? ` · version ${status.version}, up ${say.age(status.uptime_seconds)}` : "";
  clock.textContent = shown.at ? (stale ? `No answer for ${say.count(old, "second")}` : `Live, every five seconds${told}`) : told.slice(3);
  clock.classList.toggle("stale", stale && Boolean(shown.at));
}

byId("ask-form").addEventListener("submit", () => {
  sessionStorage.setItem(KEYS[api.view].stored, byId("ask-key").value.trim());
  api.declined = false;
  route();
});
byId("ask-cancel").addEventListener("click", () => byId("ask").close());
byId("ask").addEventListener("close", () => { api.declined = !keyOf(api.view); });
byId("key").addEventListener("click", () => { api.declined = false; sessionStorage.removeItem(KEYS[api.view].stored); askForKey(false); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) { view.refresh(); view.quick?.(); } });
window.addEventListener("hashchange", route);
setInterval(tick, 1000);
route();
