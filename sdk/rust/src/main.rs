//! Stored procedures of a bank.

use guest::{Call, Error, Result, Row, module};

module! {
    tables { ACCOUNT: "account" (id, balance); }
    entries { transfer; fee(rows); }
}

/// Moves an amount from one account to another, and returns the payer's new balance.
fn transfer(call: &mut Call) -> Result<i64> {
    let arguments = call.arguments::<(Option<i64>, Option<i64>, Option<i64>)>()?;
    let (Some(payer), Some(payee), Some(amount)) = arguments else {
        return Err(Error::new("22004", "payer, payee and amount must not be null"));
    };
    if amount <= 0 || payer == payee {
        return Err(Error::new("22023", "the amount must be positive, and the accounts different"));
    }
    let mut batch = call.batch();
    let (from, to) = (batch.get_for_update(ACCOUNT, payer), batch.get_for_update(ACCOUNT, payee));
    let mut answers = batch.run()?;
    let from = balance(answers.take(from)?)?;
    let to = balance(answers.take(to)?)?;
    if from < amount {
        return Err(Error::new("P0001", "the balance is too low"));
    }
    let received = to.checked_add(amount).ok_or_else(|| Error::new("22003", "bigint out of range"))?;
    let mut batch = call.batch();
    batch.put(ACCOUNT, (payer, from - amount));
    batch.put(ACCOUNT, (payee, received));
    batch.run()?;
    Ok(from - amount)
}

fn balance(row: Option<Row>) -> Result<i64> {
    row.ok_or_else(|| Error::new("P0002", "an account does not exist"))?.get(1)
}

/// Returns the fee of each amount: one percent, at least 1.
fn fee(_call: &mut Call, rows: &[Row]) -> Result<Vec<Option<i64>>> {
    rows.iter().map(|row| Ok(row.get::<Option<i64>>(0)?.map(|amount| (amount / 100).max(1)))).collect()
}
