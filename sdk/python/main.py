"""Stored procedures of a bank."""

import overtake

ACCOUNT = overtake.table("account", "account", ["id", "balance"])


@overtake.procedure
def transfer(call, payer, payee, amount):
    """Moves an amount from one account to another, and returns the payer's new balance."""
    if payer is None or payee is None or amount is None:
        overtake.raise_error("22004", "payer, payee and amount must not be null")
    if amount <= 0 or payer == payee:
        overtake.raise_error("22023", "the amount must be positive, and the accounts different")
    batch = call.batch()
    batch.get(ACCOUNT, payer, lock=True)
    batch.get(ACCOUNT, payee, lock=True)
    from_row, to_row = batch.run()
    if from_row is None or to_row is None:
        overtake.raise_error("P0002", "an account does not exist")
    if from_row[1] < amount:
        overtake.raise_error("P0001", "the balance is too low")
    # The database refuses a number that its column cannot hold: integers of Python have no greatest one.
    batch = call.batch()
    batch.put(ACCOUNT, payer, from_row[1] - amount)
    batch.put(ACCOUNT, payee, to_row[1] + amount)
    batch.run()
    return from_row[1] - amount


@overtake.batch_function
def fee(call, rows):
    """Returns the fee of each amount: one percent, at least 1."""
    return [None if amount is None else max(1, amount // 100) for (amount,) in rows]


overtake.main()
