// Figures and tables. Invariant: what the server says reaches the page as text, never as markup.

import { ago, count, ms, rate } from "./format.js";

function cell(row, text, kind = "td", className = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  if (className) made.className = className;
  if (kind === "th") made.scope = "col";
  row.append(made);
}

function table(place, columns, rows) {
  const [head, body] = [document.createElement("thead"), document.createElement("tbody")];
  const names = document.createElement("tr");
  for (const { name, kind } of columns) cell(names, name, "th", kind);
  head.append(names);
  for (const row of rows) {
    const line = document.createElement("tr");
    for (const { value, kind } of columns) cell(line, value(row), "td", kind);
    body.append(line);
  }
  place.replaceChildren(head, body);
}

export function now(place, { mpl, waiting, throughput, response }) {
  const phase = mpl.phase ? `${mpl.mode}, ${mpl.phase}` : mpl.mode;
  const facts = [
    ["Limit (MPL)", mpl.mpl === null ? "none" : count(mpl.mpl), phase],
    ["Active", count(mpl.slots), mpl.extra_slots > 0 ? `${mpl.extra_slots} of them extra` : ""],
    ["Waiting", count(waiting), mpl.lent_total > 0 ? `${count(mpl.lent_total)} slots lent so far` : ""],
    ["Transactions/s", rate(throughput), `${rate(mpl.throughput)} at this limit`],
    ["Mean response", ms(response), `${ms(mpl.response_ms)} at this limit`],
    ["C²", mpl.c2.toFixed(1), "of demands"],
  ];
  place.replaceChildren(
    ...facts.map(([name, value, note]) => {
      const [box, term, said, small] = ["div", "dt", "dd", "small"].map((kind) => document.createElement(kind));
      term.textContent = name;
      small.textContent = note;
      said.append(`${value} `, small);
      box.append(term, said);
      return box;
    }),
  );
}

/** Shares as bars and in words; where most of the time goes, priority pays. */
export function resources(place, words, { resources: rows, mpl }) {
  const percent = (value) => (value === null || value === undefined ? "–" : `${(value * 100).toFixed(0)} %`);
  words.textContent = mpl.dominating
    ? `Most of it goes into ${mpl.dominating}: that is where priority pays.`
    : "Too little was seen to say what dominates.";
  place.hidden = rows.length === 0;
  table(
    place,
    [
      { name: "resource", value: (row) => row.resource },
      { name: "share of the time", value: (row) => percent(row.share) },
      { name: "", kind: "share", value: () => "" },
      { name: "busy", value: (row) => percent(row.busy) },
      { name: "host busy", value: (row) => percent(row.host_busy) },
      { name: "demand of a transaction", value: (row) => ms(row.demand_ms) },
      { name: "known by", value: (row) => row.source },
    ],
    rows,
  );
  for (const [at, bar] of [...place.querySelectorAll("td.share")].entries()) {
    const mark = document.createElement("i");
    mark.style.inlineSize = `${rows[at].share * 100}%`;
    if (rows[at].dominates) mark.className = "most";
    bar.append(mark);
  }
}

export function classes(place, rows, rates) {
  table(
    place,
    [
      { name: "class", value: (row) => row.class },
      { name: "active", value: (row) => count(row.slots) },
      { name: "waiting", value: (row) => count(row.waiting) },
      { name: "lent", value: (row) => count(row.lent) },
      { name: "arrivals/s", value: (row) => rate(rates.get(row.class)) },
      { name: "done", value: (row) => count(row.done) },
      { name: "failed", value: (row) => count(row.failed) },
      { name: "wait p50", value: (row) => ms(row.wait_p50_ms) },
      { name: "p99", value: (row) => ms(row.wait_p99_ms) },
      { name: "inside p50", value: (row) => ms(row.inside_p50_ms) },
      { name: "p99", value: (row) => ms(row.inside_p99_ms) },
      { name: "idle p50", value: (row) => ms(row.idle_p50_ms) },
      { name: "p99", value: (row) => ms(row.idle_p99_ms) },
      { name: "demand", value: (row) => ms(row.demand_ms) },
      { name: "C²", value: (row) => row.c2.toFixed(1) },
    ],
    rows,
  );
}

/** One bar for each class, of its stages over all transports and isolation levels; the longest are named first. */
export function stages(place, cost, rows) {
  const byClass = new Map();
  for (const row of rows.filter((one) => one.total_ms > 0)) {
    const own = byClass.get(row.class) ?? new Map();
    const known = own.get(row.stage) ?? { stage: row.stage, waits: row.is_waiting, ms: 0 };
    own.set(row.stage, { ...known, ms: known.ms + row.total_ms });
    byClass.set(row.class, own);
  }
  const overhead = Math.max(0, ...rows.map((row) => row.overhead));
  cost.textContent = `The clock itself costs at most ${(overhead * 100).toFixed(1)} % of a class’s processor time.`;
  place.replaceChildren(...[...byClass].map(([name, own]) => stack(name, [...own.values()])));
}

function stack(name, parts) {
  const all = parts.reduce((sum, part) => sum + part.ms, 0);
  const percent = (part) => `${part.stage} ${((part.ms / all) * 100).toFixed(0)} %`;
  const [box, caption, title, words, bar] = ["figure", "figcaption", "h3", "span", "div"].map((kind) => document.createElement(kind));
  box.dataset.class = name;
  title.textContent = name;
  words.textContent = [...parts].sort((a, b) => b.ms - a.ms).filter((part) => part.ms / all >= 0.005).map(percent).join(", ");
  bar.className = "stack";
  bar.setAttribute("aria-hidden", "true");
  for (const part of parts) {
    const mark = document.createElement("i");
    mark.dataset.stage = part.stage;
    mark.title = percent(part);
    mark.className = part.waits ? "waiting" : "";
    mark.style.flex = `${part.ms / all} 0 0`;
    bar.append(mark);
  }
  caption.append(title, words);
  box.append(caption, bar);
  return box;
}

export function log(place, rows) {
  table(
    place,
    [
      { name: "ago", value: (row) => ago(row.seconds_ago) },
      { name: "limit", value: (row) => (row.mpl === row.next_mpl ? row.mpl : `${row.mpl} → ${row.next_mpl}`) },
      { name: "why", kind: "words", value: (row) => row.reason },
      { name: "transactions/s", value: (row) => rate(row.throughput) },
      { name: "±", value: (row) => `${(row.throughput_off * 100).toFixed(1)} %` },
      { name: "response", value: (row) => ms(row.response_ms) },
      { name: "somebody waited", value: (row) => `${(row.saturated * 100).toFixed(0)} %` },
      { name: "C²", value: (row) => row.c2.toFixed(1) },
    ],
    rows,
  );
}
