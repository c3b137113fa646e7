// What does not move: the machine, the delivery ladder, the queries, Figure 1, and the progress of loading.
import { SHAPES, bytes, count, duration, element, figures } from "./format.js";

const at = (id) => document.getElementById(id);

export function showFacts(facts) {
  const database = facts.database;
  const machine = `${facts.cpus} ${facts.cpus === 1 ? "core" : "cores"}, ${facts.workers} ${facts.workers === 1 ? "worker" : "workers"}`;
  at("machine-line").textContent =
    `${machine}. An interrupt reaches a busy worker by ${facts.delivery.in_use}.` +
    (facts.side_by_side
      ? " There are cores for all three instances, so the others keep running when you choose one."
      : " Only the chosen instance’s query and workers run, so that the three never compete for these cores.") +
    (facts.workers < facts.cpus
      ? " The cores without a worker are left to your browser and to this page’s server."
      : " Every core has a worker, so your browser and this page’s server take turns with the query.");
  at("yields").textContent = facts.yields ? ` (${facts.yields})` : "";
  at("rate").max = facts.rate_per_s_max;
  at("version").textContent = facts.version;
  const rows = [
    ["Processor", `${facts.cpu_model}, ${count(facts.cpus)} to use`],
    ["Workers", `${count(facts.workers)} in each instance`],
    ["Memory", bytes(facts.memory_bytes)],
    ["Kernel", facts.kernel],
    ["Real-time class", `${facts.realtime.allowed ? "allowed" : "not allowed"}: ${facts.realtime.why}`],
    ["Instances", facts.side_by_side ? "all three may run at once" : "one at a time"],
  ];
  if (database) {
    rows.push(["Database", `TPC-H at scale factor ${database.scale_factor}, TPC-C with ${count(database.warehouses)} ${database.warehouses === 1 ? "warehouse" : "warehouses"}: ${count(database.rows_count)} rows, ${bytes(database.bytes)}`]);
  }
  at("facts").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  at("psql").replaceChildren(...facts.psql.flatMap(({ policy, command }) => {
    const shown = document.createElement("dd");
    shown.append(element("code", command));
    return [element("dt", policy, policy), shown];
  }));
  at("delivery-why").textContent = facts.delivery.why;
  at("rungs").replaceChildren(...facts.delivery.rungs.map((rung) => {
    const item = element("li", "", rung.in_use ? "used" : "");
    const delay = rung.delay_us_p50 === null ? "" : `, ${duration(rung.delay_us_p50)} to the first instruction`;
    const tag = rung.in_use ? "in use" : rung.available ? "available, not used" : "not on this machine";
    item.append(element("b", rung.name), element("span", tag + delay, "tag"), element("p", rung.why));
    return item;
  }));
}

export function showQueries(queries) {
  const sets = new Map();
  for (const query of queries) {
    if (!sets.has(query.set)) sets.set(query.set, Object.assign(document.createElement("optgroup"), { label: query.set }));
    const option = element("option", query.title);
    option.value = query.name;
    sets.get(query.set).append(option);
  }
  at("query").replaceChildren(...sets.values());
  showSql(queries);
}

export function showSql(queries) {
  const query = queries.find(({ name }) => name === at("query").value);
  if (!query) return;
  at("sql-title").textContent = `${query.set}: ${query.title}. It runs again and again until it is stopped.`;
  at("sql").textContent = query.sql.trim();
}

export function showLoading(loading) {
  if (loading.state === "failed") {
    at("loading-title").textContent = "The database could not be loaded";
    at("loading-note").textContent = loading.reason;
    at("loading-steps").replaceChildren();
    return;
  }
  if (loading.state !== "loading") return;
  at("loading-title").textContent = "Loading the database";
  at("loading-note").textContent = `${Math.round(loading.elapsed_ms / 1000)} s so far. The controls appear as soon as it is there.`;
  const bars = element("div", "", "bars");
  for (const step of loading.steps) {
    const row = element("div", "", "bar-row");
    const bar = document.createElement("progress");
    bar.setAttribute("aria-label", step.name);
    bar.max = step.total || 1;
    bar.value = Math.min(step.done, step.total);
    const counted = step.total ? `${count(step.done)} of ${count(step.total)} ${step.unit}` : `${count(step.done)} ${step.unit}`;
    row.append(element("span", step.name), bar, element("span", counted, "count"));
    bars.append(row);
  }
  at("loading-steps").replaceChildren(bars);
}

/** Figure 1 as two drawings of the same data: wide, and for small screens with the names above the bars. */
export function showFigure1(figure) {
  const drawings = [drawFigure(figure, 60, 150, 170, "figure-wide"), drawFigure(figure, 26, 6, 0, "figure-narrow")];
  at("figure1").innerHTML = drawings.join("");
}

function drawFigure(figure, unit, left, right, className) {
  const narrow = right === 0;
  const end = Math.max(...figure.rows.flatMap((row) => row.segments.map((segment) => segment.end)));
  const height = narrow ? 74 : 62;
  const top = 34;
  const width = left + end * unit + (narrow ? 6 : right);
  const bottom = top + figure.rows.length * height;
  const x = (time) => left + time * unit;
  const parts = [];
  const labels = [];
  for (let time = 0; time <= end; time += narrow ? 2 : 1) {
    parts.push(`<text class="soft" x="${x(time)}" y="${bottom + 20}" text-anchor="middle" style="font-size:13px">${time}</text>`);
    parts.push(`<line class="axis" x1="${x(time)}" x2="${x(time)}" y1="${bottom}" y2="${bottom + 5}"/>`);
  }
  figure.rows.forEach((row, index) => {
    const y = top + index * height + (narrow ? 24 : 8);
    const said = `${figures(row.latency).replace(/\.0+$/, "")} ${row.latency === 1 ? "unit" : "units"}`;
    if (narrow) {
      labels.push(`<g transform="translate(${left} ${y - 19}) scale(0.85)" fill="var(--${row.policy})">${SHAPES[row.policy]}</g><text class="over" x="${left + 20}" y="${y - 7}" style="fill:var(--${row.policy});font-weight:650">${row.policy}: ${said}</text>`);
    } else {
      parts.push(`<g transform="translate(0 ${y + 10}) scale(1.1)" fill="var(--${row.policy})">${SHAPES[row.policy]}</g><text x="26" y="${y + 25}" style="fill:var(--${row.policy});font-weight:650;font-size:20px">${row.policy}</text>`);
      parts.push(`<text x="${x(end) + 20}" y="${y + 25}" style="fill:var(--${row.policy});font-weight:650;font-size:20px">${said}</text>`);
    }
    for (const segment of row.segments) {
      if (segment.context === "idle") continue;
      for (let start = segment.start; start < segment.end - 1e-9; start += 1) {
        const wide = Math.min(1, segment.end - start) * unit;
        const urgent = segment.context === "urgent";
        parts.push(urgent
          ? `<rect x="${x(start)}" y="${y - 4}" width="${wide}" height="44" rx="3" fill="var(--${row.policy})"/>`
          : `<rect class="cell-query" x="${x(start)}" y="${y}" width="${wide}" height="36" rx="2"/>`);
      }
    }
    const done = figure.arrival + row.latency;
    parts.push(`<path d="M${x(figure.arrival)} ${y + 42}v5H${x(done)}v-5" fill="none" stroke="var(--${row.policy})" stroke-width="2"/>`);
  });
  parts.push(`<line class="arrival" x1="${x(figure.arrival)}" x2="${x(figure.arrival)}" y1="20" y2="${bottom}"/>`);
  parts.push(`<text x="${x(figure.arrival)}" y="14" text-anchor="middle" style="font-size:14px">the transaction arrives</text>`);
  const said = figure.rows.map((row) => `${row.policy}: done after ${row.latency} units`).join("; ");
  parts.push(...labels);
  return `<svg class="${className}" viewBox="0 0 ${width} ${bottom + 26}" role="img" aria-label="${said}">${parts.join("")}</svg>`;
}
