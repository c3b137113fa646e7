// Asks once a second and shows what it was told. Invariant: a page that nobody sees asks nothing.

import { histogram, line, model } from "./charts.js";
import { ms, rate } from "./format.js";
import { classes, log, now, resources, stages } from "./tables.js";

const PERIOD_MS = 1000;
const FORECAST_MS = 10000;
/** All that the server keeps. */
const PAST_MAX_S = 86400;
const POINTS_MAX = 6000;
/** Observations that are drawn. */
const DOTS_MAX = 24;
const TONES = { wait: "slow", inside: "done", idle: "limit" };

const by = (id) => document.getElementById(id);
/** Points of the past: [moment by this page's clock in seconds, row], the oldest first. */
let past = [];
let curve = [];
let verdict = null;
let forecastAt = -Infinity;
let before = null;
let rates = new Map();

function clock() {
  return performance.now() / 1000;
}

function remember(rows, at) {
  for (const row of rows) {
    const then = at - row.seconds_ago;
    if (past.length === 0 || past.at(-1)[0] + row.seconds / 2 < then) past.push([then, row]);
  }
  if (past.length > POINTS_MAX) past = past.slice(-POINTS_MAX);
}

function measureRates(rows, at) {
  if (before) {
    const seconds = Math.max(0.001, at - before.at);
    rates = new Map(rows.map((row) => [row.class, Math.max(0, row.arrived - (before.arrived.get(row.class) ?? row.arrived)) / seconds]));
  }
  before = { at, arrived: new Map(rows.map((row) => [row.class, row.arrived])) };
}

function drawPast() {
  const seconds = Number(document.querySelector("#range input:checked").value);
  const end = past.at(-1)?.[0] ?? 0;
  const points = (value) => past.map(([at, row]) => [end - at, value(row)]);
  const shared = { seconds };
  line(by("past"), { ...shared, name: "mpl", title: "Limit (MPL)", tone: "limit", isStep: true, format: (value) => value.toFixed(0), points: points((row) => row.mpl) });
  line(by("past"), { ...shared, name: "throughput", title: "Transactions a second", tone: "done", format: rate, points: points((row) => row.throughput) });
  line(by("past"), { ...shared, name: "response", title: "Mean response", tone: "slow", format: ms, points: points((row) => row.response_ms) });
  line(by("past"), { ...shared, name: "waiting", title: "Waiting", tone: "slow", format: (value) => value.toFixed(1), axis: true, points: points((row) => row.waiting) });
}

function drawModel(look) {
  const seen = look.log.slice(-DOTS_MAX);
  const present = look.mpl.mpl;
  by("verdict").textContent = verdict?.verdict ?? "";
  by("verdict").hidden = !verdict;
  const isEmpty = curve.length === 0 && seen.length === 0;
  by("model-empty").hidden = !isEmpty;
  by("model").hidden = isEmpty;
  if (isEmpty) return;
  const points = (rows, value) => rows.map((row) => [row.mpl, row[value]]);
  const chart = (name, title, tone, format) =>
    model(by("model"), { name, title, tone, present, format, curve: points(curve, name), dots: points(seen, name) });
  chart("throughput", "Transactions a second", "done", rate);
  chart("response_ms", "Mean response", "slow", ms);
}

function drawHistograms(look) {
  for (const row of look.classes) {
    for (const what of ["wait", "inside", "idle"]) {
      const buckets = look.histogram
        .filter((bucket) => bucket.class === row.class && bucket.what === what)
        .map((bucket) => [bucket.lower_us, bucket.upper_us, bucket.count]);
      const text = buckets.length === 0 ? "nothing yet" : `p50 ${ms(row[`${what}_p50_ms`])}, p99 ${ms(row[`${what}_p99_ms`])}`;
      histogram(by("histograms"), { name: `${row.class}-${what}`, title: `${row.class}: ${what}`, tone: TONES[what], buckets, text });
    }
  }
}

function show(look, at) {
  document.body.dataset.phase = look.mpl ? "ready" : "no-gate";
  by("no-gate").hidden = look.mpl !== null;
  for (const section of document.querySelectorAll(".with-gate")) section.hidden = look.mpl === null;
  by("stages-panel").hidden = look.stages.length === 0;
  stages(by("stages"), by("stages-cost"), look.stages);
  if (!look.mpl) return;
  remember(look.history, at);
  measureRates(look.classes, at);
  const latest = past.at(-1)?.[1];
  now(by("now"), {
    mpl: look.mpl,
    waiting: look.classes.reduce((sum, row) => sum + row.waiting, 0),
    throughput: latest?.throughput ?? look.mpl.throughput,
    response: latest?.response_ms ?? look.mpl.response_ms,
  });
  drawPast();
  drawModel(look);
  resources(by("resources"), by("dominating"), look);
  classes(by("classes"), look.classes, rates);
  drawHistograms(look);
  by("log-empty").hidden = look.log.length > 0;
  log(by("log"), [...look.log].reverse());
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.json()).error?.message ?? answer.statusText);
  return answer.json();
}

async function turn() {
  const began = clock();
  try {
    if (past.length > 0 && began - past.at(-1)[0] > PAST_MAX_S) past = [];
    const known = past.length === 0 ? PAST_MAX_S : Math.ceil(began - past.at(-1)[0]) + 2;
    const look = await ask(`/api/look?past=${Math.min(PAST_MAX_S, known)}`);
    if (look.mpl && performance.now() - forecastAt >= FORECAST_MS) {
      ({ limits: curve, verdict } = await ask("/api/forecast"));
      // Until there is one, it is asked for again.
      if (curve.length > 0) forecastAt = performance.now();
    }
    show(look, clock());
    by("status").textContent = `live, as of ${new Date().toLocaleTimeString("en-GB")}`;
    by("banner").hidden = true;
  } catch (error) {
    document.body.dataset.phase = "gone";
    by("banner").textContent = `The server does not answer; trying again. (${error.message})`;
    by("banner").hidden = false;
    // Another server's clock and counts begin anew.
    [past, curve, verdict, before, forecastAt] = [[], [], null, null, -Infinity];
  }
}

async function run() {
  for (;;) {
    if (!document.hidden) await turn();
    await new Promise((done) => setTimeout(done, PERIOD_MS));
  }
}

by("range").addEventListener("change", drawPast);
by("status").setAttribute("aria-live", "off");
run();
