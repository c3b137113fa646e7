// Numbers and colours for people. A policy has one colour and one shape, here and in style.css.

export const POLICIES = ["wait", "yield", "preempt"];

export const SYMBOLS = { wait: "circle", yield: "diamond", preempt: "triangle-up" };

export const SHAPES = {
  wait: '<circle cx="8" cy="8" r="6"/>',
  yield: '<path d="M8 1l7 7-7 7-7-7z"/>',
  preempt: '<path d="M8 1l7 13H1z"/>',
};

/** A number with three figures that count: 1,234 / 27.6 / 3.21. */
export function figures(value) {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Microseconds as people read them: 27.6 µs, 3.21 ms, 1.24 s. */
export function duration(us) {
  if (us < 999.5) return `${figures(us)} µs`;
  if (us < 999_500) return `${figures(us / 1e3)} ms`;
  return `${figures(us / 1e6)} s`;
}

/** A tick on an axis: 10 µs, 1 ms, 250 ms. No needless zeros. */
export function tick(us) {
  const [value, unit] = Math.abs(us) < 1e3 ? [us, "µs"] : Math.abs(us) < 1e6 ? [us / 1e3, "ms"] : [us / 1e6, "s"];
  return `${Number(value.toPrecision(4)).toLocaleString("en")} ${unit}`;
}

export function count(value) {
  return Math.round(value).toLocaleString("en");
}

export function bytes(value) {
  return value >= 2 ** 30 ? `${figures(value / 2 ** 30)} GiB` : `${figures(value / 2 ** 20)} MiB`;
}

/** The theme's present value of a custom property. */
export function colour(name) {
  return getComputedStyle(document.body).getPropertyValue(`--${name}`).trim();
}

/** A new element with text (never HTML: what the server sends is text). */
export function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** The number 1, 2 or 5 times a power of ten that cuts `span` into about `parts`. */
export function niceStep(span, parts) {
  const rough = span / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) ?? 10 * power;
}
