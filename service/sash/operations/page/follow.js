const followed = { id: "", stop: null, events: [] };
const MOST_EVENTS = 20, AGAIN_MS = 3000;

/** Follow the conversation's events from a version on; each one reads the window again. One stream at a time. */
function follow(id, version) {
  if (followed.id === id) return;
  unfollow();
  const stop = new AbortController();
  Object.assign(followed, { id, stop, events: [] });
  listen(id, version, stop.signal);
}

function unfollow() {
  followed.stop?.abort();
  Object.assign(followed, { id: "", stop: null });
}

async function listen(id, version, signal) {
  let after = version;
  while (!signal.aborted) {
    try {
      const asked = keyOf("conversation");
      const answer = await fetch(`conversations/${encodeURIComponent(id)}/events?after=${after}`, { headers: asked ? { Authorization: `Bearer ${asked}` } : {}, cache: "no-store", signal });
      if (!answer.ok) return; // the window's own request says why
      for await (const event of eventsOf(answer.body)) {
        after = event.version ?? after;
        followed.events = [{ at: Date.now(), ...event }, ...followed.events].slice(0, MOST_EVENTS);
        if (followed.id === id) { drawEvents(); look(false); }
      }
    } catch {
      if (signal.aborted) return;
    }
    await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
  }
}

/** The events of a stream of server-sent events, decoded. */
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      text = text.slice(end + 2);
      if (data) yield JSON.parse(data);
    }
  }
}

function liveCard() {
  return h("section", { class: "card", "aria-label": "Live" }, h("h2", {}, "Live, since this page was opened"), h("ol", { class: "events", id: "events" }));
}

function drawEvents() {
  const words = (event) => {
    const seqs = (event.messages ?? []).map((each) => each.seq ?? each);
    const where = seqs.length ? `: ${seqs.length === 1 ? `message ${seqs[0]}` : `messages ${Math.min(...seqs)} to ${Math.max(...seqs)}`}` : "";
    return `${event.type.replaceAll("_", " ")}${where}`;
  };
  byId("events")?.replaceChildren(...(followed.events.length ? followed.events.map((event) => h("li", {}, h("span", { class: "small" }, say.clock(event.at, true)), ` ${words(event)}`, event.version ? h("span", { class: "small" }, ` · version ${event.version}`) : "")) : [h("li", { class: "small" }, "Nothing has happened yet.")]));
}
