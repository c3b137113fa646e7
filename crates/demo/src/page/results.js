// The table and the two charts. The table is redrawn with every update; the charts once a second at most and only when
// something new has come, because plotly costs tens of milliseconds of a core that the query wants too.
import { POLICIES, SHAPES, SYMBOLS, colour, count, duration, element, figures, tick } from "./format.js";
import { chosen, state } from "./state.js";

const REDRAW_MS = 1000;
/** Columns of the latency chart: of each, the lowest and the highest mark are drawn. */
const BUCKETS = 300;
/** The table's ranges and the chart begin at a microsecond. */
const RANGE_US = [1, 1e7];

const at = (id) => document.getElementById(id);
let dirty = true;
let drawn = 0;

export function markDirty() {
  dirty = true;
}

export function showTable() {
  const policy = chosen()?.policy;
  const rows = state.summaries.map((summary) => {
    const row = document.createElement("tr");
    row.className = summary.policy + (summary.policy === policy ? " chosen" : "");
    row.dataset.policy = summary.policy;
    const name = document.createElement("th");
    name.scope = "row";
    name.innerHTML = `<svg class="shape" viewBox="0 0 16 16" aria-hidden="true">${SHAPES[summary.policy]}</svg>`;
    name.append(summary.policy);
    const latency = summary.latency_us;
    const cell = (what, text) => {
      const made = element("td", text, latency ? "" : "none");
      made.dataset.what = what;
      made.dataset.label = what === "count" ? "New-Orders" : what;
      return made;
    };
    row.append(
      name,
      cell("count", count(summary.count)),
      cell("p50", latency ? duration(latency.p50) : "–"),
      cell("p99", latency ? duration(latency.p99) : "–"),
      cell("max", latency ? duration(latency.max) : "–"),
      cell("aborts", count(summary.aborts_count)),
      range(summary.policy, latency),
    );
    return row;
  });
  document.querySelector("#summary tbody").replaceChildren(...rows);
  for (const summary of state.summaries) {
    const headline = document.querySelector(`[data-headline="${summary.policy}"]`);
    if (summary.latency_us) headline.replaceChildren(element("b", duration(summary.latency_us.p99)), " p99");
    else headline.textContent = "no New-Order yet";
  }
  showVerdicts();
  at("lost").textContent = state.lost > 0 ? `${count(state.lost)} events were lost because a worker’s ring was full: the timeline has gaps, the database has none.` : "";
}

/** p50 to max on one logarithmic line, with a mark at p99. */
function range(policy, latency) {
  const cell = element("td", "", "range");
  const [low, high] = RANGE_US.map(Math.log10);
  const x = (us) => (100 * (Math.min(Math.max(Math.log10(us), low), high) - low)) / (high - low);
  const parts = [];
  for (let power = low; power <= high; power += 1) {
    parts.push(`<line x1="${x(10 ** power)}%" x2="${x(10 ** power)}%" y1="2" y2="20"/>`);
  }
  if (latency) {
    parts.push(`<line class="bar" x1="${x(latency.p50)}%" x2="${x(latency.max)}%" y1="11" y2="11" style="stroke:var(--${policy})"/>`);
    parts.push(`<line class="bar" x1="${x(latency.p50)}%" x2="${x(latency.p50)}%" y1="6" y2="16" style="stroke:var(--${policy})"/>`);
    parts.push(`<circle cx="${x(latency.p99)}%" cy="11" r="6" fill="var(--${policy})"/>`);
  }
  cell.innerHTML = `<svg role="img" aria-label="${latency ? `p99 at ${duration(latency.p99)}` : "nothing yet"}">${parts.join("")}</svg>`;
  return cell;
}

function showVerdicts() {
  const of = Object.fromEntries(state.summaries.map((summary) => [summary.policy, summary]));
  const [wait, preempt] = [of.wait?.latency_us, of.preempt?.latency_us];
  const times = wait && preempt ? wait.p99 / preempt.p99 : 0;
  const verdict = times >= 2 ? `At p99, preempt is ${figures(times)} times faster than wait.` : "";
  if (at("verdict").textContent !== verdict && settled(of.wait?.count, of.preempt?.count)) at("verdict").textContent = verdict;
  if (!wait || !preempt) at("verdict").textContent = "";
  at("runs-verdict").textContent = POLICIES.filter((policy) => of[policy]?.run_ms)
    .map((policy) => `${policy} ${duration(of[policy].run_ms.p50 * 1e3)}`).join(", ").replace(/^./, (all) => `Median: ${all}`);
}

let said = 0;
/** A sentence that is read aloud may change every five seconds, not ten times a second. */
function settled(...counts) {
  if (counts.some((value) => !value) || performance.now() - said < 5000 && at("verdict").textContent) return false;
  said = performance.now();
  return true;
}

export function showCharts(force = false) {
  const due = performance.now() - drawn > REDRAW_MS;
  at("latency-empty").hidden = state.transactions.length > 0;
  at("runs-empty").hidden = state.runs.length > 0;
  if (!window.Plotly || !(force || (dirty && due))) return;
  dirty = false;
  drawn = performance.now();
  const origin = Math.min(state.transactions[0]?.arrived_ns ?? Infinity, state.runs[0]?.started_ns ?? Infinity);
  draw("latency-chart", state.transactions.length, POLICIES.map((policy) => latencyTrace(policy, origin)), {
    type: "log",
    tickvals: [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7],
    ticktext: [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].map(tick),
    range: latencyRange(),
  });
  draw("runs-chart", state.runs.length, POLICIES.map((policy) => runsTrace(policy, origin)), { rangemode: "tozero", ticksuffix: " ms" });
}

/** Whole decades around all that is known. */
function latencyRange() {
  const known = state.summaries.map((summary) => summary.latency_us).filter(Boolean);
  const low = Math.min(10, ...known.map((latency) => latency.p50));
  const high = Math.max(1000, ...known.map((latency) => latency.max));
  return [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high) + 0.1)];
}

function latencyTrace(policy, origin) {
  const all = state.transactions.filter((transaction) => transaction.policy === policy);
  const points = thin(all.map((transaction) => [(transaction.ended_ns - origin) / 1e9, (transaction.ended_ns - transaction.arrived_ns) / 1e3]));
  return {
    name: policy, type: "scatter", mode: "markers",
    x: points.map(([time]) => time), y: points.map(([, latency]) => latency),
    text: points.map(([, latency]) => duration(latency)),
    hovertemplate: `${policy}: %{text}<extra></extra>`,
    marker: { color: colour(policy), symbol: SYMBOLS[policy], size: points.length > 200 ? 7 : 10, opacity: points.length > 200 ? 0.75 : 0.95 },
  };
}

/** Of every column of the chart, the lowest and the highest point. */
function thin(points) {
  if (points.length <= 2 * BUCKETS) return points;
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const buckets = new Map();
  for (const point of points) {
    const bucket = Math.floor(((point[0] - first) / (last - first || 1)) * BUCKETS);
    const have = buckets.get(bucket);
    if (!have) buckets.set(bucket, [point, point]);
    else if (point[1] < have[0][1]) have[0] = point;
    else if (point[1] > have[1][1]) have[1] = point;
  }
  return [...buckets.values()].flatMap(([low, high]) => (low === high ? [low] : [low, high]));
}

function runsTrace(policy, origin) {
  const runs = state.runs.filter((run) => run.policy === policy && run.finished);
  return {
    name: policy, type: "scatter", mode: "markers",
    x: runs.map((run) => (run.ended_ns - origin) / 1e9), y: runs.map((run) => (run.ended_ns - run.started_ns) / 1e6),
    text: runs.map((run) => `${run.query} ${duration((run.ended_ns - run.started_ns) / 1e3)}, overtaken by ${count(run.overtaken_count)}`),
    hovertemplate: `${policy}: %{text}<extra></extra>`,
    marker: { color: colour(policy), symbol: SYMBOLS[policy], size: 8 },
  };
}

function draw(id, marks, traces, yaxis) {
  const place = at(id);
  // Shown before it is drawn: plotly asks for its size.
  place.hidden = marks === 0;
  if (marks === 0) {
    if (place.firstChild) window.Plotly.purge(place);
    place.replaceChildren();
    return;
  }
  const font = { family: getComputedStyle(document.body).fontFamily, size: parseFloat(getComputedStyle(document.documentElement).fontSize) * 0.82, color: colour("soft") };
  const axis = { gridcolor: colour("line"), zeroline: false, linecolor: colour("line"), fixedrange: true, automargin: true };
  window.Plotly.react(place, traces, {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font, showlegend: true, hovermode: "closest",
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom", itemclick: "toggle" },
    autosize: true, margin: { l: 64, r: 8, t: 30, b: 34 },
    xaxis: { ...axis, ticksuffix: " s", rangemode: "tozero", nticks: window.innerWidth < 600 ? 4 : 10 },
    yaxis: { ...axis, ...yaxis },
  }, { displayModeBar: false, responsive: true });
}
