// Module of the suite in TypeScript: the entries of `conformance.rs` that WebAssembly has.

import * as overtake from "./overtake";
import { Decimal, SqlError, type Call, type Value } from "./overtake";

declare const require: (name: string) => any;
declare const process: any;

const ITEM = overtake.table("ITEM", "item", ["id", "name", "amount"]);
const PAIR = overtake.table("PAIR", "pair", ["a", "b", "v"]);
const EVERY = overtake.table("EVERY", "every", ["id", "value"]);
const DOUBLE = overtake.statement("DOUBLE", "UPDATE item SET amount = amount * 2");
const NAMES = overtake.statement("NAMES", "SELECT name FROM item WHERE id < $1");
const FAILS = overtake.statement("FAILS", "SELECT 1 / 0");

overtake.batchScalar("echo", (_call, rows) => rows.map((row) => row[0] as Value));

overtake.scalar("keep", (call, value: Value) => {
  call.put(EVERY, [1n, value]);
  const row = call.get(EVERY, [1n]);
  if (!row) throw new SqlError("P0002", "the row is gone");
  return row[1] as Value;
});

function check(isSo: boolean, what: string): void {
  if (!isSo) throw new SqlError("P0004", what);
}

function amount(value: Value | undefined): string {
  return String(value instanceof Decimal ? Number(value.toString()) : value);
}

overtake.scalar("every_call", (call) => {
  call.insert(ITEM, [1n, "one", new Decimal(150n, 2)]);
  call.put(ITEM, [2n, "two", new Decimal(25n, 1)]);
  check(call.get(ITEM, [3n]) === null, "a row from nowhere");
  const one = call.get(ITEM, [1n], true);
  check(one !== null && one[1] === "one" && amount(one[2]) === "1.5", "another row 1");
  check(call.execute(DOUBLE, []).rows === 2n, "rows doubled");
  const names = call.query(NAMES, [10n]);
  check(names.length === 2 && names[0]?.[0] === "one", "names");
  const [first] = call.scan(ITEM, [], true);
  check(first?.[0] === 2n && amount(first?.[2]) === "5", "the last row first");
  call.scan(ITEM, []).close();
  check(call.delete(ITEM, [2n]) && !call.delete(ITEM, [2n]), "one deletion");
  call.notice("done");
  return 1n;
});

overtake.scalar("batch", (call) => {
  const batch = call.batch();
  batch.insert(ITEM, [1n, "one", new Decimal(1n, 0)]);
  const one = batch.get(ITEM, [1n]);
  const none = batch.get(ITEM, [2n], true);
  const doubled = batch.execute(DOUBLE, []);
  const names = batch.query(NAMES, [10n]);
  const scan = batch.scan(ITEM, []);
  const gone = batch.delete(ITEM, [1n]);
  const notGone = batch.delete(ITEM, [1n]);
  batch.notice("in a batch", "info");
  batch.run();
  check(one() !== null && none() === null, "rows of a batch");
  check(doubled().rows === 1n, "rows doubled");
  const [name, ...others] = names();
  check(name?.[0] === "one" && others.length === 0, "names of a batch");
  check(gone() && !notGone(), "deletions");
  const [row] = scan();
  return BigInt(amount(row?.[2]));
});

overtake.scalar("ends", (call) => {
  call.put(ITEM, [1n, "kept", new Decimal(0n, 0)]);
  const cursor = call.scan(ITEM, []);
  call.commit();
  call.rollback();
  return BigInt([...cursor].length);
});

overtake.scalar("sum_of_scan", (call, first: bigint) => {
  let sum = 0n;
  for (const row of call.scan(PAIR, [first])) sum += row[2] as bigint;
  return sum;
});

overtake.setReturning("emit_rows", (call, count: bigint) => {
  for (let number = 0n; number < count; number++) call.emit([number, "a row".repeat(20)]);
});

overtake.scalar("notices", (call) => {
  ["debug", "log", "info", "notice", "warning"].forEach((level, at) => call.notice(`notice ${at}`, level));
  return 5n;
});

overtake.scalar("raise", () => {
  throw new SqlError("UX123", "the message", "The detail.", "The hint.");
});

overtake.scalar("goes_on", (call) => {
  for (const attempt of [() => call.execute(FAILS, []), () => call.put(ITEM, [99n, "after the error", 0n])]) {
    try {
      attempt();
    } catch {
      // That is the attack.
    }
  }
  return 1n;
});

overtake.scalar("forge", (call, kind: bigint) => {
  const table = (number: number) => ({ number, columns: 1 });
  if (kind === 0n) call.get(table(3), [1n]);
  else if (kind === 1n) call.put(table(65_535), [1n]);
  else if (kind === 2n) call.execute({ number: 3 }, []);
  else if (kind === 3n) call.scan(table(40_000), []);
  else call.delete(table(999), [1n]);
  return 1n;
});

overtake.scalar("endless", () => {
  for (;;);
});

overtake.scalar("endless_calls", (call) => {
  for (;;) call.get(ITEM, [1n]);
});

overtake.scalar("memory_bomb", () => {
  const all: Uint8Array[] = [];
  for (;;) all.push(new Uint8Array(1 << 20).fill(0x5a));
});

overtake.scalar("stack_bomb", () => {
  const dive = (depth: bigint): bigint => dive(depth + 1n) + 1n;
  return dive(0n);
});

overtake.scalar("panics", () => {
  throw new Error("a panic of the guest");
});

function seen(call: Call, id: bigint): bigint {
  return call.get(ITEM, [id]) ? 1n : 0n;
}

overtake.scalar("many_calls", (call, count: bigint) => {
  let sum = 0n;
  for (let id = 0n; id < count; id++) sum += seen(call, id);
  return sum;
});

overtake.scalar("one_call", (call, id: bigint) => seen(call, id));

function told(attempt: () => unknown): string {
  try {
    return `ok: ${attempt()}`;
  } catch (error) {
    return `refused: ${error}`;
  }
}

overtake.scalar("host_files", (_call, path: string) => {
  if (path === "environment") return Object.keys(process.env).join(" ");
  if (path.startsWith("write ")) return told(() => require("node:fs").writeFileSync(path.slice(6), "x"));
  return told(() => require("node:fs").readFileSync(path));
});

overtake.scalar("host_network", (_call, address: string) => told(() => require("node:net").connect(address)));

overtake.scalar("host_processes", () => told(() => require("node:child_process").execSync("kill -0 1")));

for (const name of ["fork_bomb", "descriptors"]) {
  overtake.scalar(name, () => {
    throw new SqlError("0A000", "there is no such thing in WebAssembly");
  });
}

overtake.scalar("leaves", (_call, code: bigint) => process.exit(Number(code)));

// What has neither a clock nor chance gives the same in each instance.
overtake.scalar("clocks", () => {
  const attempts = [() => Date.now(), () => new Date(), () => Date(), () => Math.random()];
  return [told(() => new Date(0).toISOString()), ...attempts.map(told)].join("\n");
});

overtake.scalar("asynchronous", (async () => 1n) as unknown as () => bigint);

overtake.main();
