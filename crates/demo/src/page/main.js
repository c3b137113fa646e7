// The page's conductor: keys, buttons, and what an update sets in motion.
import { POLICIES, duration, count } from "./format.js";
import { chosen, command, connect, get, state } from "./state.js";
import { showFacts, showFigure1, showLoading, showQueries, showSql } from "./explain.js";
import { drawGlass, drawTimeline, freeze } from "./timeline.js";
import { markDirty, showCharts, showTable } from "./results.js";

const TOUR_SECONDS = 6;
/** Between two pictures of the timeline for readers who prefer less motion. */
const CALM_MS = 1000;

const at = (id) => document.getElementById(id);
let queries = [];
let tour = null;
let painted = 0;
let unseen = [];
const calm = matchMedia("(prefers-reduced-motion: reduce)");
/** Tickets of New-Orders that were sent by hand and whose end is to be said aloud. */
const awaited = new Set();

function say(text, bad = false) {
  at("notice").textContent = text;
  at("notice").classList.toggle("bad", bad);
}

/** Gives a command and says what went wrong, if anything did. */
async function attempt(path, body) {
  try {
    return await command(path, body);
  } catch (error) {
    say(error.message, true);
    return null;
  }
}

async function chooseInstance(policy) {
  if (await attempt("/api/select", { policy })) say(`${policy} decides now.`);
  showControls();
}

async function toggleQuery() {
  if (chosen()?.query) return attempt("/api/query/stop");
  return attempt("/api/query/start", { name: at("query").value });
}

async function newOrder() {
  const answer = await attempt("/api/new-order");
  if (!answer) return;
  // Its end may have come with an update before the answer did.
  const done = state.transactions.find((transaction) => transaction.ticket === answer.ticket);
  if (done) return announce(done);
  awaited.add(answer.ticket);
  say(`New-Order ${answer.ticket} is on its way.`);
}

function announce(transaction) {
  say(`New-Order ${transaction.ticket} under ${transaction.policy}: ${duration((transaction.ended_ns - transaction.arrived_ns) / 1e3)}.`);
}

async function toggleRate() {
  if (chosen()?.rate_per_s > 0) return attempt("/api/rate", { per_second: 0 });
  const wanted = at("rate").valueAsNumber;
  if (!(wanted > 0)) return say("The rate must be a number above 0.", true);
  return attempt("/api/rate", { per_second: wanted });
}

/** Each policy for a while under the same load; pressing again ends it. */
async function toggleTour() {
  if (tour) return endTour();
  const mine = (tour = { timer: null, wake: null });
  showControls();
  if (!chosen()?.query) await attempt("/api/query/start", { name: at("query").value });
  for (const policy of POLICIES) {
    if (tour !== mine) break;
    const selected = await attempt("/api/select", { policy });
    // Whoever pressed stop meanwhile has set the rate to 0; it must stay there.
    if (tour !== mine || !selected) break;
    await attempt("/api/rate", { per_second: at("rate").valueAsNumber || 50 });
    say(`${policy}, for ${TOUR_SECONDS} seconds.`);
    await new Promise((wake) => Object.assign(mine, { wake, timer: setTimeout(wake, TOUR_SECONDS * 1000) }));
    if (tour !== mine) break;
  }
  if (tour === mine) {
    await endTour();
    say(`All three have run. ${state.verdict}`);
  }
}

async function endTour() {
  const mine = tour;
  tour = null;
  clearTimeout(mine.timer);
  mine.wake?.();
  await attempt("/api/rate", { per_second: 0 });
  await attempt("/api/query/stop");
  showControls();
}

function toggleFreeze() {
  const held = freeze();
  at("freeze").setAttribute("aria-pressed", held);
  at("freeze-verb").textContent = held ? "Go on" : "Freeze";
  drawTimeline();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  at("theme").firstChild.textContent = theme === "dark" ? "Light " : "Dark ";
  repaint();
}

function repaint() {
  drawTimeline();
  drawGlass([]);
  showCharts(true);
}

/** Buttons and notes, from what the server says is so. */
function showControls() {
  const instance = chosen();
  document.body.dataset.policy = instance?.policy ?? "preempt";
  for (const radio of document.querySelectorAll("input[name=instance]")) radio.checked = radio.value === instance?.policy;
  const query = instance?.query ?? null;
  at("query-toggle").setAttribute("aria-pressed", query !== null);
  at("query-verb").textContent = query ? "Stop query" : "Start query";
  if (query && document.activeElement !== at("query") && at("query").value !== query) {
    at("query").value = query;
    showSql(queries);
  }
  const summary = state.summaries.find(({ policy }) => policy === instance?.policy);
  at("query-note").textContent = query
    ? summary?.run_ms ? `Running on all workers: ${duration(summary.run_ms.p50 * 1e3)} a run, median of ${count(summary.runs_count)}.` : "Running on all workers; the first run has not ended yet."
    : "The workers are free: an order starts at once under every policy.";
  const rate = instance?.rate_per_s ?? 0;
  at("rate-toggle").setAttribute("aria-pressed", rate > 0);
  at("rate-verb").textContent = rate > 0 ? "Stop" : "Send";
  const waiting = instance?.waiting_count ?? 0;
  at("order-note").textContent = [rate > 0 ? `${count(rate)} a second arrive.` : "", waiting > 0 ? `${count(waiting)} waiting now.` : ""].filter(Boolean).join(" ") || "None is waiting.";
  at("tour").setAttribute("aria-pressed", tour !== null);
  at("tour-verb").textContent = tour ? "Stop" : "Show me";
}

function takeFacts(facts) {
  state.sideBySide = facts.side_by_side;
  showFacts(facts);
}

function onUpdate(update) {
  const phase = state.loading.state === "ready" ? "ready" : "loading";
  if (document.body.dataset.phase !== phase) {
    document.body.dataset.phase = phase;
    at("live-text").textContent = phase === "ready" ? "live" : "loading";
    at("loading").hidden = phase === "ready";
    get("/api/facts").then(takeFacts).catch((error) => say(error.message, true));
  }
  if (phase === "loading") return showLoading(state.loading);
  if (update.transactions.length > 0 || update.runs.length > 0) markDirty();
  if (state.transactions.length === 0 && state.runs.length === 0) markDirty();
  for (const transaction of update.transactions) {
    if (awaited.delete(transaction.ticket)) announce(transaction);
  }
  showControls();
  showTable();
  unseen.push(...update.transactions.slice(-1), ...update.transactions.filter((transaction) => transaction.ticket > 0));
  if (calm.matches && performance.now() - painted < CALM_MS) return;
  painted = performance.now();
  drawTimeline();
  drawGlass(unseen);
  unseen = [];
  showCharts();
}

async function onOpen() {
  at("banner").hidden = true;
  document.body.dataset.phase = "connecting";
  try {
    const [facts, figure, list] = await Promise.all([get("/api/facts"), get("/api/figure1"), get("/api/queries")]);
    takeFacts(facts);
    showFigure1(figure);
    queries = list;
    showQueries(queries);
  } catch (error) {
    say(error.message, true);
  }
}

function onGone(ended) {
  document.body.dataset.phase = "gone";
  at("live-text").textContent = "not connected";
  at("banner").textContent = ended
    ? "Overtake has ended. What you see stays; the page goes on by itself when the program runs again."
    : "The connection to Overtake is lost. What you see stays; the page tries again by itself.";
  at("banner").hidden = false;
}

const KEYS = {
  1: () => chooseInstance("wait"),
  2: () => chooseInstance("yield"),
  3: () => chooseInstance("preempt"),
  q: toggleQuery,
  n: newOrder,
  r: toggleRate,
  t: toggleTour,
  f: toggleFreeze,
  c: () => attempt("/api/clear"),
  d: () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
  "?": () => at("keys").showModal(),
};
const NEED_DATA = new Set(["1", "2", "3", "q", "n", "r", "t", "f", "c"]);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || at("keys").open) return;
  const typing = event.target.closest?.("select, input[type=number], textarea");
  if (typing || !(event.key in KEYS)) return;
  if (NEED_DATA.has(event.key) && document.body.dataset.phase !== "ready") return;
  event.preventDefault();
  KEYS[event.key]();
});

const press = { "query-toggle": "q", "new-order": "n", "rate-toggle": "r", tour: "t", freeze: "f", clear: "c", theme: "d", help: "?" };
for (const [id, key] of Object.entries(press)) at(id).addEventListener("click", () => KEYS[key]());
at("instances").addEventListener("change", (event) => chooseInstance(event.target.value));
at("window").addEventListener("change", drawTimeline);
at("query").addEventListener("change", () => {
  showSql(queries);
  if (chosen()?.query) attempt("/api/query/start", { name: at("query").value });
});
at("rate").addEventListener("change", () => {
  if (chosen()?.rate_per_s > 0 && at("rate").valueAsNumber > 0) attempt("/api/rate", { per_second: at("rate").valueAsNumber });
});
window.addEventListener("resize", repaint);
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));

setTheme(dark.matches ? "dark" : "light");
connect({ update: onUpdate, open: onOpen, gone: onGone });
