// The table and the two charts. The table is redrawn with every update; the charts once a second at most and only when
// something new has come, because plotly costs tens of milliseconds of a core that the query wants too.
import { POLICIES, SHAPES, SYMBOLS, colour, count, duration, element, niceStep, tick } from "./format.js";
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
    const [raw, own] = [summary.latency_us, summary.on_cpu_us];
    const cell = (what, label, text) => {
      const made = element("td", text, text === NONE ? "none" : "");
      made.dataset.what = what;
      made.dataset.label = label;
      return made;
    };
    const time = (quantiles, at) => (quantiles ? duration(quantiles[at]) : NONE);
    row.append(
      name,
      cell("count", "New-Orders", count(summary.count)),
      cell("p50", "p50", time(raw, "p50")),
      cell("p99", "p99", time(raw, "p99")),
      cell("max", "max", time(raw, "max")),
      cell("p50-on-cpu", "p50 on CPU", time(own, "p50")),
      cell("p99-on-cpu", "p99 on CPU", time(own, "p99")),
      cell("max-on-cpu", "max on CPU", time(own, "max")),
      cell("share-on-cpu", "on CPU", share(summary)),
      cell("aborts", "aborts", count(summary.aborts_count)),
      range(summary.policy, raw),
    );
    return row;
  });
  document.querySelector("#summary tbody").replaceChildren(...rows);
  showLanes();
  const of = Object.fromEntries(state.summaries.map((summary) => [summary.policy, summary]));
  at("runs-verdict").textContent = POLICIES.filter((policy) => of[policy]?.run_ms)
    .map((policy) => `${policy} ${duration(of[policy].run_ms.p50 * 1e3)}`).join(", ").replace(/^./, (all) => `Median: ${all}`);
  at("lost").textContent = state.lost > 0 ? `${count(state.lost)} events were lost because a worker’s ring was full: the timeline has gaps, the database has none.` : "";
}

const NONE = "–";

function share(summary) {
  return summary.count > 0 ? `${Math.floor((100 * summary.on_cpu_count) / summary.count)} %` : NONE;
}

/** The latest latency and the bar of each policy, and the sentence that follows from the same update's figures. */
function showLanes() {
  const known = state.summaries.map((summary) => summary.latency_us?.p99 ?? 0);
  const end = scaleEnd(Math.max(...known));
  for (const summary of state.summaries) {
    const lane = document.querySelector(`[data-lane="${summary.policy}"]`);
    const part = (name) => lane.querySelector(`[data-${name}]`);
    const [raw, own] = [summary.latency_us, summary.on_cpu_us];
    const instance = state.instances.find(({ policy }) => policy === summary.policy);
    part("latest").textContent = summary.latest_us === null ? NONE : duration(summary.latest_us);
    part("queue").textContent = instance?.waiting_count > 0 ? `${count(instance.waiting_count)} waiting now` : "";
    part("bar").style.width = raw ? `${(100 * raw.p99) / end}%` : "0";
    part("p99").textContent = raw ? duration(raw.p99) : "";
    part("beside").textContent = !raw ? "no New-Order yet"
      : `${own ? `on CPU ${duration(own.p99)}` : "too few on CPU"} (${share(summary)} of ${count(summary.count)})`;
  }
  showScale(end);
  at("verdict").textContent = state.verdict;
}

/** The end of the bars' scale: a round number of microseconds, a third beyond the longest bar, for its figure. */
function scaleEnd(longest) {
  const step = niceStep(Math.max(longest, 1) * 1.34, 5);
  return Math.ceil((Math.max(longest, 1) * 1.34) / step) * step;
}

let scaled = 0;
function showScale(end) {
  if (end === scaled) return;
  scaled = end;
  const step = niceStep(end, 5);
  const ticks = [];
  for (let us = 0; us < end - step / 2; us += step) {
    const mark = element("span", us === 0 ? "0" : tick(us));
    mark.style.left = `${(100 * us) / end}%`;
    ticks.push(mark);
  }
  at("scale").replaceChildren(...ticks);
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
