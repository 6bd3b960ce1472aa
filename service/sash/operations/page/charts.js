/** Columns over time: windows, with failed requests in front of them. */
function timeline(points, perMinute, unit, what = "window") {
  const width = roomFor(760), height = 190, left = 40, bottom = 22, top = 8, room = width - left;
  const most = nice(Math.max(...points.map((point) => point.windows / perMinute), 1));
  const step = room / points.length;
  const y = (value) => top + (height - top - bottom) * (1 - value / most);
  const total = points.reduce((sum, point) => sum + point.windows, 0);
  const failed = points.reduce((sum, point) => sum + point.server_errors, 0);
  const label = `${unit}, ${say.clock(points[0].at)} to now: ${say.count(total, what)} in all, at most ${say.rate(Math.max(...points.map((p) => p.windows / perMinute)))} a minute, ${say.count(failed, "failed request")}.`;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label });
  for (const value of [0, most / 2, most]) {
    svg.append(s("line", { class: "axis", x1: left, x2: width, y1: y(value), y2: y(value) }));
    svg.append(s("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, value < 1 ? String(value) : say.short(value)));
  }
  points.forEach((point, index) => {
    const value = point.windows / perMinute, x = left + index * step;
    const title = `${say.clock(point.at)}: ${say.count(point.windows, what)}, ${point.window_p95_milliseconds === null ? "" : `95 % within ${say.milliseconds(point.window_p95_milliseconds)} ms, `}${say.count(point.server_errors, "failed request")}`;
    const column = s("g", {}, s("title", {}, title));
    column.append(s("rect", { x, y: top, width: step, height: height - top - bottom, fill: "transparent" }));
    const now = index === points.length - 1 ? " now" : "";
    if (value) column.append(s("rect", { class: `column${now}`, x: x + step * 0.12, y: y(value), width: step * 0.76, height: Math.max(1, y(0) - y(value)) }));
    if (point.server_errors) {
      const tall = Math.max(4, y(0) - y(Math.min(most, point.server_errors / perMinute)));
      column.append(s("rect", { class: "error", x: x + step * 0.12, y: y(0) - tall, width: step * 0.76, height: tall }));
    }
    svg.append(column);
  });
  const every = Math.ceil(points.length / Math.floor(width / 110));
  points.forEach((point, index) => {
    if (index % every === 0 && index < points.length - every / 2) svg.append(s("text", { x: left + index * step, y: height - 4 }, say.clock(point.at)));
  });
  svg.append(s("text", { x: width, y: height - 4, "text-anchor": "end" }, "now"));
  return svg;
}

/** The 95th percentile of each moment as a line, with gaps for moments without windows. */
function latency(points) {
  const width = roomFor(760), height = 84, left = 40, bottom = 6, top = 8;
  const values = points.map((point) => point.window_p95_milliseconds);
  const known = values.filter((value) => value !== null);
  const most = nice(Math.max(...known, 1));
  const x = (index) => left + ((index + 0.5) * (width - left)) / points.length;
  const y = (value) => top + (height - top - bottom) * (1 - value / most);
  const label = known.length ? `Milliseconds within which 95 % of windows were read: at most ${say.milliseconds(Math.max(...known))}, last ${say.milliseconds(known.at(-1))}.` : "No window was read.";
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label });
  for (const value of [0, most]) {
    svg.append(s("line", { class: "axis", x1: left, x2: width, y1: y(value), y2: y(value) }));
    svg.append(s("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, value < 1 ? String(value) : say.short(value)));
  }
  let path = "", pen = false;
  values.forEach((value, index) => {
    if (value === null) pen = false;
    else {
      path += `${pen ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = true;
      if (values[index - 1] === null || index === 0) svg.append(s("circle", { class: "dot", cx: x(index), cy: y(value), r: 2.4 }));
    }
  });
  svg.append(s("path", { class: "line", d: path || "M0 0" }));
  return svg;
}

/** The number of windows by the share of the budget that they use, in twentieths. */
function fullness(histogram) {
  const width = 360, height = 140, bottom = 20, top = 6;
  const total = histogram.reduce((sum, n) => sum + n, 0), most = Math.max(...histogram, 1), step = width / histogram.length;
  const nearly = histogram.slice(18).reduce((sum, n) => sum + n, 0);
  const label = total ? `How full ${say.count(total, "window")} were: ${say.share(nearly / total)} of them over nine tenths of their budget.` : "No window was served.";
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label });
  histogram.forEach((n, index) => {
    const tall = n ? Math.max(2, ((height - top - bottom) * n) / most) : 0;
    const title = `${index * 5} to ${index * 5 + 5} % full: ${say.count(n, "window")}`;
    svg.append(s("g", {}, s("title", {}, title),
      s("rect", { x: index * step, y: top, width: step, height: height - top - bottom, fill: "transparent" }),
      s("rect", { class: "column", x: index * step + 1, y: height - bottom - tall, width: step - 2, height: tall })));
  });
  svg.append(s("line", { class: "axis", x1: 0, x2: width, y1: height - bottom, y2: height - bottom }));
  [["start", 0, "empty"], ["middle", width / 2, "half full"], ["end", width, "full"]].forEach(([anchor, x, text]) => {
    svg.append(s("text", { x, y: height - 4, "text-anchor": anchor }, text));
  });
  return svg;
}

/** One bar of parts, with a legend. Parts: [class, name, number]. */
function stacked(parts, name, unit = "", short = say.short) {
  const total = parts.reduce((sum, [, , n]) => sum + n, 0);
  const label = `${name}: ${parts.map(([, what, n]) => `${what} ${say.whole(n)}${unit}`).join(", ")}.`;
  const bar = h("div", { class: "stack", role: "img", "aria-label": label });
  for (const [colour, what, n] of parts) {
    if (!n) continue;
    const part = h("span", { class: colour, title: `${what}: ${say.whole(n)}${unit}` });
    part.style.width = `${(100 * n) / total}%`;
    bar.append(part);
  }
  const key = h("ul", { class: "key" }, parts.map(([colour, what, n]) => h("li", { class: colour }, `${what} ${short(n)}`)));
  return [bar, key];
}

/** The width of a drawing, so that its text keeps its size on a narrow screen. */
const roomFor = (wide) => Math.min(wide, Math.max(280, byId("main").clientWidth - 86));

/** The next larger round number whose half is round too. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((n) => Number((n * power).toPrecision(2))).find((n) => n >= value);
}
