// Stored procedures of a bank.

import { Call, Table, Value, raise, run } from "./overtake";
export { overtake_area } from "./overtake";

const ACCOUNT = new Table(0, 2);

/** Moves an amount from one account to another, and returns the payer's new balance. */
function transfer(call: Call): void {
  const payer = call.argument(0);
  const payee = call.argument(1);
  const sum = call.argument(2);
  if (payer.isNull || payee.isNull || sum.isNull) raise("22004", "payer, payee and amount must not be null");
  const amount = sum.asInt();
  if (amount <= 0 || payer.asInt() == payee.asInt()) {
    raise("22023", "the amount must be positive, and the accounts different");
  }
  const batch = call.batch();
  batch.get(ACCOUNT, [payer], true);
  batch.get(ACCOUNT, [payee], true);
  batch.run();
  const from = balance(batch.row(ACCOUNT));
  const to = balance(batch.row(ACCOUNT));
  if (from < amount) raise("P0001", "the balance is too low");
  if (to > i64.MAX_VALUE - amount) raise("22003", "bigint out of range");
  batch.put(ACCOUNT, [payer, Value.int(from - amount)]);
  batch.put(ACCOUNT, [payee, Value.int(to + amount)]);
  batch.run();
  call.result([Value.int(from - amount)]);
}

function balance(row: Value[] | null): i64 {
  if (row === null) raise("P0002", "an account does not exist");
  return row![1].asInt();
}

/** Returns the fee of an amount: one percent, at least 1. */
function fee(call: Call): void {
  const amount = call.argument(0);
  call.result([amount.isNull ? Value.null() : Value.int(max<i64>(1, amount.asInt() / 100))]);
}

export function overtake_invoke(entry: i32, length: i32): i32 {
  return run(entry, length, [transfer, fee]);
}
