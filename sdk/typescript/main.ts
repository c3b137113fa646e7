// Stored procedures of a bank.

import * as overtake from "./overtake";

const ACCOUNT = overtake.table("account", "account", ["id", "balance"]);

/** Moves an amount from one account to another, and returns the payer's new balance. */
overtake.procedure("transfer", (call, payer: bigint | null, payee: bigint | null, amount: bigint | null) => {
  if (payer === null || payee === null || amount === null) {
    throw new overtake.SqlError("22004", "payer, payee and amount must not be null");
  }
  if (amount <= 0n || payer === payee) {
    throw new overtake.SqlError("22023", "the amount must be positive, and the accounts different");
  }
  const batch = call.batch();
  const from = batch.get(ACCOUNT, [payer], true);
  const to = batch.get(ACCOUNT, [payee], true);
  batch.run();
  const left = balance(from()) - amount;
  const right = balance(to()) + amount;
  if (left < 0n) throw new overtake.SqlError("P0001", "the balance is too low");
  // The database refuses a number that its column cannot hold: a bigint of JavaScript has no greatest one.
  batch.put(ACCOUNT, [payer, left]);
  batch.put(ACCOUNT, [payee, right]);
  batch.run();
  return [left];
});

function balance(row: overtake.Row | null): bigint {
  if (!row) throw new overtake.SqlError("P0002", "an account does not exist");
  return row[1] as bigint;
}

/** Returns the fee of each amount: one percent, at least 1. */
overtake.batchScalar("fee", (_call, rows) =>
  rows.map(([amount]) => {
    if (amount === null) return null;
    const fee = (amount as bigint) / 100n;
    return fee < 1n ? 1n : fee;
  }),
);

overtake.main();
