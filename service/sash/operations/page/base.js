/** An element. Attributes that are functions become listeners; null children are left out. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** An SVG element. */
function s(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}

/** A text with the characters that turn its direction or hide in it made visible, so that it cannot seem another. */
const plain = (text) => String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (each) => `⟨U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

const byId = (id) => document.getElementById(id);
const NONE = "–";

const say = {
  whole: (n) => (n === null || n === undefined ? NONE : Math.round(n).toLocaleString("en")),
  short(n) {
    if (n === null || n === undefined) return NONE;
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
      if (Math.abs(n) >= size) return `${Number((n / (unit === "k" ? 1e3 : size)).toPrecision(3))} ${unit}`;
    }
    return say.whole(n);
  },
  rate: (n) => (n === 0 ? "0" : n < 10 ? n.toFixed(1) : say.whole(n)),
  share: (n) => (n === null || n === undefined ? NONE : n > 0 && n < 0.001 ? "under 0.1\u202f%" : n > 0 && n < 0.01 ? `${(n * 100).toFixed(1)}\u202f%` : `${Math.round(n * 100)}\u202f%`),
  bytes(n) {
    for (const [size, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (n >= size) return `${(n / size).toPrecision(3)} ${unit}`;
    return `${n} bytes`;
  },
  age(seconds) {
    for (const [size, unit] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) if (seconds >= 2 * size) return say.count(Math.floor(seconds / size), unit);
    return say.count(Math.round(seconds), "second");
  },
  milliseconds: (n) => (n === null || n === undefined ? NONE : n < 10 ? n.toFixed(1) : say.whole(n)),
  dollars(n) {
    if (n === null || n === undefined) return "price unknown";
    if (n === 0) return "$0";
    return n < 0.01 ? "under 1¢" : `$${n < 100 ? n.toFixed(2) : say.whole(n)}`;
  },
  clock: (at, seconds) => new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}) }),
  count: (n, one, many = `${one}s`) => `${say.whole(n)} ${n === 1 ? one : many}`,
};

/** The key of each view. Figures are of all tenants, so a tenant's key does not open them. */
const KEYS = {
  deployment: {
    stored: "sash.metrics-key", name: "Metrics key", title: "The metrics key, please",
    needed: "These are figures of all tenants: the service's SASH_METRICS_KEY opens them, and no API key.",
    refused: "That key opens no figures: it is not the service's SASH_METRICS_KEY.",
  },
  conversation: {
    stored: "sash.key", name: "API key", title: "An API key, please",
    needed: "This deployment answers only with one.",
    refused: "That key opens nothing here. sash keys create makes one; others are listed in SASH_API_KEYS.",
  },
};
Object.assign(KEYS, { status: KEYS.deployment, conversations: KEYS.conversation });
const keyOf = (name) => sessionStorage.getItem(KEYS[name].stored);
const SILENCE = { title: "Sash does not answer", detail: "Nothing came back: it is stopped, or the way to it is cut." };

/** Sends a request with the view's key. A refused key opens the dialog; a problem is thrown as its document.
 * Returns the answer with its `etag`, or null if it has not changed. */
const api = {
  view: "deployment",
  async get(path, headers = {}) {
    const { view } = api, asked = keyOf(view);
    const response = await fetch(path, {
      headers: { ...headers, ...(asked ? { Authorization: `Bearer ${asked}` } : {}) }, cache: "no-store",
    }).catch(() => { throw Object.assign(new Error(SILENCE.detail), { problem: SILENCE }); });
    if (response.status === 401 && view === api.view && asked === keyOf(view)) askForKey(asked !== null); // else a newer key is tried
    if (response.status === 304) return null;
    const body = await response.json().catch(() => ({ title: response.statusText, detail: "The answer is not JSON.", status: response.status }));
    if (response.status === 401) Object.assign(body, { title: "A key is needed", detail: `The button “${KEYS[view].name}” above takes one.` });
    if (!response.ok) throw Object.assign(new Error(body.detail), { problem: body });
    return Object.assign(body, { etag: response.headers.get("ETag") });
  },
};

function askForKey(refused) {
  byId("key").hidden = false;
  if (byId("ask").open || (api.declined && !refused)) return;
  const key = KEYS[api.view];
  byId("ask-title").textContent = key.title;
  byId("ask-label").textContent = key.name;
  byId("ask-why").textContent = refused ? key.refused : `${key.needed} It is kept in this tab alone, until you close it.`;
  byId("ask-key").value = "";
  byId("ask").showModal();
}
