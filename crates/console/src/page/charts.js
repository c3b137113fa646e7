// Charts, as SVG. Invariant: each says in words what it shows, for those who do not see it.

const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

function word(parent, x, y, text, anchor = "start") {
  make("text", { x, y, "text-anchor": anchor }, parent).textContent = text;
}

/** The figure of this name in a place, made if it is not there; its drawing is empty. */
function figure(place, name, title, tone, height) {
  let found = place.querySelector(`[data-chart="${name}"]`);
  if (!found) {
    found = document.createElement("figure");
    found.dataset.chart = name;
    found.className = tone;
    found.innerHTML = "<figcaption><h3></h3><span></span></figcaption>";
    found.append(make("svg", { role: "img" }));
    place.append(found);
  }
  found.querySelector("h3").textContent = title;
  const svg = found.querySelector("svg");
  const width = Math.max(240, found.clientWidth);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.replaceChildren();
  return { svg, width, note: found.querySelector("figcaption span") };
}

/** A value over time. Points are [seconds ago, value or null], the oldest first. */
export function line(place, { name, title, tone, seconds, points, format, isStep, axis }) {
  const height = axis ? 92 : 76;
  const { svg, width, note } = figure(place, name, title, tone, height);
  const [left, right, top, bottom] = [4, width - 4, 6, axis ? height - 18 : height - 4];
  const known = points.filter(([ago, value]) => value !== null && ago <= seconds);
  make("path", { class: "axis", d: `M${left} ${bottom}H${right}` }, svg);
  const most = Math.max(1e-9, ...known.map(([, value]) => value));
  const x = (ago) => right - (ago / seconds) * (right - left);
  const y = (value) => bottom - (value / most) * (bottom - top);
  // One step in a pixel is enough.
  const steps = Math.max(1, Math.floor(right - left));
  const means = new Map();
  for (const [ago, value] of known) {
    const step = Math.floor((ago / seconds) * steps);
    const sum = means.get(step) ?? [0, 0];
    means.set(step, [sum[0] + value, sum[1] + 1]);
  }
  let path = "";
  for (const [step, [sum, times]] of [...means].sort((a, b) => b[0] - a[0])) {
    const [px, py] = [x((step / steps) * seconds).toFixed(1), y(isStep ? sum / times : sum / times).toFixed(1)];
    path += path === "" ? `M${px} ${py}` : isStep ? `H${px}V${py}` : `L${px} ${py}`;
  }
  if (path) make("path", { class: "mark", d: path }, svg);
  if (axis) {
    const unit = seconds <= 300 ? [60, "min"] : seconds <= 3600 ? [60, "min"] : [3600, "h"];
    for (let part = 0; part <= 5; part += 1) {
      const ago = (seconds * part) / 5;
      const text = part === 0 ? "now" : `−${+(ago / unit[0]).toFixed(1)} ${unit[1]}`;
      word(svg, x(ago), height - 3, text, part === 0 ? "end" : part === 5 ? "start" : "middle");
    }
  }
  const latest = known.at(-1)?.[1];
  note.textContent = latest === undefined ? "nothing yet" : `now ${format(latest)}, at most ${format(most)}`;
  svg.setAttribute("aria-label", `${title}: ${note.textContent}`);
}

/** The model's curve, what was observed, and the limit in force. Curve and dots are [limit, value]. */
export function model(place, { name, title, tone, curve, dots, present, format }) {
  const height = 190;
  const { svg, width, note } = figure(place, name, title, tone, height);
  const [left, right, top, bottom] = [52, width - 10, 12, height - 24];
  const all = [...curve, ...dots].filter(([limit, value]) => limit > 0 && value > 0);
  if (all.length === 0) return;
  const widest = Math.max(2, ...all.map(([limit]) => limit), present ?? 1);
  // A few limits may be far worse than those that matter.
  const values = all.map(([, value]) => value).sort((a, b) => a - b);
  const most = Math.min(values.at(-1), values[Math.floor(values.length / 2)] * 4);
  const x = (limit) => left + (Math.log2(limit) / Math.log2(widest)) * (right - left);
  const y = (value) => bottom - Math.min(1, value / most) * (bottom - top);
  make("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }, svg);
  for (const share of [0.5, 1]) word(svg, left - 5, y(most * share) + 4, format(most * share), "end");
  for (let limit = 1; limit <= widest; limit *= 2) word(svg, x(limit), height - 8, limit, "middle");
  if (present) {
    make("line", { class: "present", x1: x(present), x2: x(present), y1: top - 4, y2: bottom }, svg);
    word(svg, x(present) + 4, top + 4, `MPL ${present}`);
  }
  const path = curve.map(([limit, value], at) => `${at === 0 ? "M" : "L"}${x(limit).toFixed(1)} ${y(value).toFixed(1)}`);
  if (path.length) make("path", { class: "mark", d: path.join("") }, svg);
  dots.forEach(([limit, value], at) => {
    const dot = make("circle", { class: "dot", cx: x(limit), cy: y(value), r: 4, opacity: 0.25 + (0.75 * (at + 1)) / dots.length }, svg);
    make("title", {}, dot).textContent = `MPL ${limit}: ${format(value)} seen`;
  });
  const seen = dots.at(-1);
  note.textContent = seen ? `last seen: ${format(seen[1])} at ${seen[0]}` : "";
  svg.setAttribute("aria-label", `${title} against the limit: ${curve.map(([limit, value]) => `${limit}: ${format(value)}`).join(", ")}. ${note.textContent}`);
}

/** Buckets [lower, upper, count] in microseconds, on a logarithmic axis. */
export function histogram(place, { name, title, tone, buckets, text, format }) {
  const height = 86;
  const { svg, width, note } = figure(place, name, title, tone, height);
  const [left, right, top, bottom] = [2, width - 2, 4, height - 18];
  note.textContent = text;
  make("path", { class: "axis", d: `M${left} ${bottom}H${right}` }, svg);
  svg.setAttribute("aria-label", `${title}: ${text}`);
  if (buckets.length === 0) return;
  // From a microsecond to 16 seconds, and further if need be, so that all can be compared.
  const [first, last] = [0, Math.max(24, Math.ceil(Math.log2(buckets.at(-1)[1])))];
  const x = (us) => left + ((Math.log2(Math.max(1, us)) - first + 1) / (last - first + 1)) * (right - left);
  // By the width of a bucket, so that areas are shares.
  const dense = buckets.map(([lower, upper, count]) => [lower, upper, count / Math.log2(upper / Math.max(lower, upper / 2))]);
  const most = Math.max(...dense.map(([, , count]) => count));
  for (const [lower, upper, count] of dense) {
    const from = lower < 1 ? left : x(lower);
    const tall = Math.max(1.5, (count / most) * (bottom - top));
    make("rect", { class: "bar", x: from, y: bottom - tall, width: Math.max(1, x(upper) - from - 1), height: tall }, svg);
  }
  for (const [us, label] of [[1, "1 µs"], [1e3, "1 ms"], [1e6, "1 s"]]) word(svg, x(us), height - 4, label, "middle");
}
