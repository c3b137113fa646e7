// What the page knows, and its one connection. Invariant: every list has a limit; a new connection or a clear on the
// server empties them all, because the stream then tells everything anew.

const TRANSACTIONS_MAX = 6000;
const RUNS_MAX = 3000;
const SPANS_MAX = 12000;
/** The server sends ten updates a second; without any for this long it is taken for gone. */
const SILENCE_MS = 5000;

export const state = {
  loading: null,
  instances: [],
  now: 0,
  clears: 0,
  transactions: [],
  runs: [],
  spans: [],
  workers: [],
  summaries: [],
  verdict: "",
  /** Whether the machine has cores for all instances at once. */
  sideBySide: false,
  lost: 0,
  missed: 0,
};

export function chosen() {
  return state.instances.find((instance) => instance.selected) ?? null;
}

function forget() {
  state.transactions = [];
  state.runs = [];
  state.spans = [];
  state.missed = 0;
}

function keep(list, more, limit) {
  list.push(...more);
  if (list.length > limit) list.splice(0, list.length - limit);
}

/** Opens the stream. `on` has `update(fresh)`, `open()`, `gone(ended)`. */
export function connect(on) {
  const stream = new EventSource("/api/events");
  let heard = Date.now();
  let away = false;
  const lose = (ended) => {
    if (away && !ended) return;
    away = true;
    on.gone(ended);
  };
  stream.onopen = () => {
    heard = Date.now();
    away = false;
    forget();
    on.open();
  };
  stream.onerror = () => {
    lose(false);
    // A refusal (a status other than 200) closes the stream for good; look again in a while.
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => connect(on), 2000);
  };
  stream.addEventListener("end", () => lose(true));
  stream.onmessage = (event) => {
    heard = Date.now();
    if (away) { away = false; on.open(); }
    const { loading, instances, update } = JSON.parse(event.data);
    if (update.next.clears !== state.clears) forget();
    state.clears = update.next.clears;
    state.loading = loading;
    state.instances = instances;
    state.now = update.now_ns;
    state.workers = update.workers;
    state.summaries = update.summaries;
    state.verdict = update.verdict;
    state.lost = update.lost_count;
    state.missed += update.missed_count;
    keep(state.transactions, update.transactions, TRANSACTIONS_MAX);
    keep(state.runs, update.runs, RUNS_MAX);
    keep(state.spans, update.spans, SPANS_MAX);
    on.update(update);
  };
  const watch = setInterval(() => {
    if (stream.readyState === EventSource.CLOSED) clearInterval(watch);
    else if (Date.now() - heard > SILENCE_MS) lose(false);
  }, 1000);
}

export async function get(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/** Gives a command. Throws with the server's own words. */
export async function command(path, body = {}) {
  let response;
  try {
    response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const { message = `status ${response.status}`, hint } = answer.error ?? {};
    throw new Error(hint ? `${message}. ${hint}` : message);
  }
  return answer;
}
