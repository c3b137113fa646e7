// Look-ups by key in TypeScript, as `tpcc.rs` has them in Rust.

import * as overtake from "./overtake";

const KEY_VALUE = overtake.table("key_value", "glass_kv", ["k", "v"]);

function value(row: overtake.Row | null): overtake.Value {
  if (!row) throw new overtake.SqlError("P0002", "the row is missing");
  return row[1] as overtake.Value;
}

/** Reads the row of each key, by a call for each. Returns the last value. */
overtake.scalar("read", (call, keys: bigint[]) => {
  let last: overtake.Value = 0n;
  for (const key of keys) last = value(call.get(KEY_VALUE, [key]));
  return last;
});

/** Reads the row of each key by one batch of calls. Returns the last value. */
overtake.scalar("read_together", (call, keys: bigint[]) => {
  const batch = call.batch();
  const answers = keys.map((key) => batch.get(KEY_VALUE, [key]));
  batch.run();
  let last: overtake.Value = 0n;
  for (const answer of answers) last = value(answer());
  return last;
});

overtake.main();
