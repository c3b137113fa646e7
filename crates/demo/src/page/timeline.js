// The workers' lanes and the magnifier. Drawn once per update (ten a second), not per frame: on a machine whose cores are all
// held by the query, a smoother picture would take the very time that it shows.
import { colour, duration, niceStep, tick } from "./format.js";
import { chosen, state } from "./state.js";

/** A New-Order of 20 µs in a window of 2 s would be a hundredth of a pixel. */
const MARK_PX = 3;
const LANES_MAX = 16;

const at = (id) => document.getElementById(id);
const HOW = {
  polled: "the query saw its flag at a safepoint",
  signalled: "a signal interrupted the query",
  deferred: "the interrupt came in a critical region and was served at its end",
  yielded: "the query gave way at a yield point",
  boundary: "the query before it had ended",
  idle: "the worker was idle",
};

let frozen = null;

/** Holds the picture still, or lets it go on. Returns whether it is held. */
export function freeze() {
  frozen = frozen === null ? state.now : null;
  return frozen !== null;
}

/** A canvas of the element's own size, in device pixels. */
function surface(canvas, height) {
  const width = canvas.clientWidth;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const size = parseFloat(getComputedStyle(document.documentElement).fontSize);
  pen.font = `${Math.round(size * 0.8)}px system-ui, sans-serif`;
  pen.textBaseline = "middle";
  return { pen, width, height, size };
}

/**
 * Query spans of one worker that touch [from, to], the open one included. Where instances share the cores a lane is a core,
 * and keeps what ran on it before another instance was chosen; else it is a worker of the chosen one.
 */
function querySpans(policy, worker, from, to) {
  const found = state.spans.filter((span) => (!state.sideBySide || span.policy === policy) && span.worker === worker && span.context === "query" && span.end_ns > from && span.start_ns < to);
  const now = state.workers.find((candidate) => candidate.worker === worker);
  const since = now?.query_since_ns ?? null;
  if (since !== null && since < to && chosen()?.policy === policy) found.push({ start_ns: since, end_ns: state.now });
  return found;
}

export function drawTimeline() {
  const instance = chosen();
  const policy = instance?.policy ?? "preempt";
  const workers = state.workers.slice(0, LANES_MAX);
  const now = frozen ?? state.now;
  const span = Number(at("window").value) * 1e6;
  const from = now - span;
  const marks = state.transactions.filter((transaction) => (!state.sideBySide || transaction.policy === policy) && transaction.ended_ns > from && transaction.arrived_ns < now);
  const busy = marks.length > 0 || workers.some((worker) => worker.context !== "idle" || querySpans(policy, worker.worker, from, now).length > 0);
  at("timeline-empty").hidden = busy;
  const lane = workers.length <= 4 ? 66 : workers.length <= 8 ? 40 : 28;
  const canvas = at("timeline");
  const { pen, width, height, size } = surface(canvas, Math.max(1, workers.length) * lane + 30);
  const narrow = width < 560;
  const left = narrow ? 26 : Math.max(90, ...workers.map((worker) => pen.measureText(worker.name).width + 16));
  const x = (time) => left + ((time - from) / span) * (width - left);
  const tones = { query: colour("query"), wait: colour("wait"), yield: colour("yield"), preempt: colour("preempt"), sunk: colour("sunk"), line: colour("line"), soft: colour("soft"), ink: colour("ink") };

  workers.forEach((worker, index) => {
    const top = index * lane + lane * 0.3;
    const tall = lane * 0.56;
    pen.fillStyle = tones.soft;
    pen.fillText(narrow ? String(worker.worker) : worker.name, 0, top + tall / 2);
    pen.fillStyle = tones.sunk;
    pen.fillRect(left, top, width - left, tall);
    pen.fillStyle = tones.query;
    for (const query of querySpans(policy, worker.worker, from, now)) {
      const start = Math.max(left, x(query.start_ns));
      // A hair of ground between two runs, so that a query's end is seen.
      pen.fillRect(start, top, Math.max(1, Math.min(width, x(query.end_ns)) - start - 1), tall);
    }
    for (const mark of marks) {
      if (mark.worker !== worker.worker) continue;
      const arrived = Math.max(left, x(mark.arrived_ns));
      const started = Math.max(left, x(mark.started_ns));
      if (started - arrived > MARK_PX) {
        pen.strokeStyle = tones[mark.policy];
        pen.lineWidth = 3;
        pen.setLineDash([2, 3]);
        pen.beginPath();
        pen.moveTo(arrived, top - 7);
        pen.lineTo(started, top - 7);
        pen.stroke();
        pen.setLineDash([]);
      }
      pen.fillStyle = tones[mark.policy];
      if (x(mark.ended_ns) >= left) pen.fillRect(started, top - 10, Math.max(MARK_PX, x(mark.ended_ns) - started), tall + 14);
    }
    if (index + 1 < workers.length) {
      pen.strokeStyle = tones.line;
      pen.setLineDash([9, 9]);
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(left, (index + 1) * lane + 0.5 + lane * 0.05);
      pen.lineTo(width, (index + 1) * lane + 0.5 + lane * 0.05);
      pen.stroke();
      pen.setLineDash([]);
    }
  });

  pen.fillStyle = tones.soft;
  pen.strokeStyle = tones.line;
  const step = niceStep(span / 1e3, narrow ? 3 : 8);
  for (let back = 0; back < span / 1e3; back += step) {
    const place = x(now - back * 1e3);
    pen.textAlign = back === 0 ? "right" : "center";
    if (place - left > 24) pen.fillText(back === 0 ? (frozen ? "frozen" : "now") : `−${tick(back)}`, place, height - size * 0.6);
  }
  pen.textAlign = "left";
  const waiting = instance?.waiting_count ?? 0;
  canvas.setAttribute("aria-label", `Timeline of ${workers.length} workers under ${policy}: ` +
    `${workers.filter((worker) => worker.context !== "idle").length} busy now, ${marks.length} New-Orders ended in the window, ${waiting} waiting`);
}

let shown = null;

/** The newest New-Order at its own scale: arrival, start and end over the query's bar. */
export function drawGlass(fresh) {
  if (state.transactions.length === 0) shown = null;
  if (fresh.length > 0 && frozen === null) shown = fresh.findLast((transaction) => transaction.ticket > 0) ?? fresh.at(-1);
  const one = shown;
  const glass = document.querySelector(".glass");
  const canvas = at("glass");
  const { pen, width, height, size } = surface(canvas, 150);
  if (!one) {
    glass.removeAttribute("data-policy");
    at("glass-time").textContent = "–";
    at("glass-story").textContent = "Send one with the key n. It appears here at its own scale.";
    canvas.setAttribute("aria-label", "The last New-Order, magnified: none yet");
    pen.fillStyle = colour("sunk");
    pen.fillRect(0, 62, width, 42);
    return;
  }
  glass.dataset.policy = one.policy;
  const total = (one.ended_ns - one.arrived_ns) / 1e3;
  const wait = (one.started_ns - one.arrived_ns) / 1e3;
  const run = (one.ended_ns - one.started_ns) / 1e3;
  at("glass-time").textContent = duration(total);
  const end = one.outcome === "committed" ? "" : one.outcome === "rolled_back" ? " Rolled back, as TPC-C asks of one in a hundred." : " It gave up.";
  const again = one.aborts_count ? ` Aborted and run again ${one.aborts_count} times.` : "";
  const story = `under ${one.policy}, on worker ${one.worker}: waited ${duration(wait)}, ran ${duration(run)}. It started because ${HOW[one.start]}.${again}${end}`;
  at("glass-story").textContent = story;
  canvas.setAttribute("aria-label", `The last New-Order, magnified: ${duration(total)} ${story}`);

  const pad = Math.max(total * 0.22, 4);
  const from = one.arrived_ns - pad * 1e3;
  const to = one.ended_ns + pad * 1e3;
  const x = (time) => ((time - from) / (to - from)) * width;
  const own = colour(one.policy);
  const top = 62;
  const tall = 42;
  pen.fillStyle = colour("sunk");
  pen.fillRect(0, top, width, tall);
  pen.fillStyle = colour("query");
  for (const query of querySpans(one.policy, one.worker, from, to)) {
    const start = Math.max(0, x(query.start_ns));
    pen.fillRect(start, top, Math.max(0, Math.min(width, x(query.end_ns)) - start), tall);
  }
  const [arrived, started, ended] = [x(one.arrived_ns), x(one.started_ns), x(one.ended_ns)];
  pen.strokeStyle = own;
  pen.fillStyle = own;
  pen.lineWidth = 2;
  pen.beginPath();
  pen.moveTo(arrived, top - 24);
  pen.lineTo(arrived, top + tall);
  pen.stroke();
  pen.setLineDash([2, 4]);
  pen.lineWidth = 3;
  pen.beginPath();
  pen.moveTo(arrived, top - 10);
  pen.lineTo(started, top - 10);
  pen.stroke();
  pen.setLineDash([]);
  pen.fillRect(started, top - 18, Math.max(MARK_PX, ended - started), tall + 26);
  pen.fillStyle = colour("ink");
  label(pen, `arrives`, arrived, top - 34, width, "center");
  // Where the run is a sliver, the label of its end would fall on that of its start.
  const apart = ended - started > 150;
  if (started - arrived > 130) label(pen, `waits ${duration(wait)}`, (arrived + started) / 2, top - 28, width, "center");
  label(pen, apart ? `runs ${duration(run)}` : `runs ${duration(run)}, done`, apart ? (started + ended) / 2 : ended, top - 34 - (apart ? 0 : started - arrived > 130 ? 0 : 18), width, "center");
  drawScale(pen, width, height, size, from, to, x, one.arrived_ns);
}

function label(pen, text, place, y, width, align) {
  const half = pen.measureText(text).width / 2;
  pen.textAlign = align;
  pen.fillText(text, Math.min(Math.max(place, half), width - half), y);
  pen.textAlign = "left";
}

/** Microseconds since the arrival. */
function drawScale(pen, width, height, size, from, to, x, zero) {
  pen.fillStyle = colour("soft");
  pen.strokeStyle = colour("line");
  const step = niceStep((to - from) / 1e3, width < 560 ? 3 : 7);
  for (let us = 0; zero + us * 1e3 <= to; us += step) {
    const place = x(zero + us * 1e3);
    pen.beginPath();
    pen.moveTo(place, height - size * 1.5);
    pen.lineTo(place, height - size * 1.15);
    pen.stroke();
    label(pen, us === 0 ? "0" : tick(us), place, height - size * 0.55, width, "center");
  }
}
