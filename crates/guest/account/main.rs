//! Module that the tests run: the documented example, and an entry for each part of the interface.

use guest::{Call, Decimal, Error, NoticeLevel, Result, Row, module, values};

module! {
    tables { ACCOUNT: "account" (id, balance); EVERY: "every_kind" (id, value); }
    statements { AUDIT: "INSERT INTO audit VALUES ($1, $2)"; ALL: "SELECT id FROM account"; }
    entries {
        transfer;
        fee;
        fee_of_rows(rows);
        every_call;
        echo;
        numbers;
        panics;
        goes_on;
        loops;
    }
}

/// Moves an amount from one account to another. Returns the new balance of the first.
fn transfer(call: &mut Call) -> Result<Decimal> {
    let (from, to, amount) = call.arguments::<(i64, i64, Decimal)>()?;
    let mut batch = call.batch();
    let (payer, payee) = (batch.get_for_update(ACCOUNT, from), batch.get_for_update(ACCOUNT, to));
    let mut answers = batch.run()?;
    let missing = |id: i64| Error::new("P0002", format!("account {id} does not exist"));
    let payer = answers.take(payer)?.ok_or_else(|| missing(from))?.get::<Decimal>(1)?;
    let payee = answers.take(payee)?.ok_or_else(|| missing(to))?.get::<Decimal>(1)?;
    let left = payer - amount;
    if left < Decimal::ZERO {
        return Err(Error::new("P0001", "the balance is too low")
            .detail(format!("It is {payer}."))
            .hint("Ask for less."));
    }
    let mut batch = call.batch();
    batch.put(ACCOUNT, (from, left));
    batch.put(ACCOUNT, (to, payee + amount));
    batch.run()?;
    Ok(left)
}

/// Scalar function: the fee of an amount.
fn fee(call: &mut Call) -> Result<Option<Decimal>> {
    let amount = call.arguments::<(Option<Decimal>,)>()?.0;
    Ok(amount.map(|amount| (amount * Decimal::new(15, 3)).round(2)))
}

/// The same for all rows of a batch at once.
fn fee_of_rows(_call: &mut Call, rows: &[Row]) -> Result<Vec<Option<Decimal>>> {
    rows.iter()
        .map(|row| Ok(row.get::<Option<Decimal>>(0)?.map(|amount| (amount * Decimal::new(15, 3)).round(2))))
        .collect()
}

/// Makes each kind of call, and returns how many rows it has seen.
fn every_call(call: &mut Call) -> Result<i64> {
    call.notice(NoticeLevel::Warning, "begun")?;
    call.insert(ACCOUNT, values![100_i64, Decimal::new(5, 0)])?;
    let mut batch = call.batch();
    let gone = batch.delete(ACCOUNT, 100_i64);
    let missing = batch.get(ACCOUNT, 100_i64);
    let executed = batch.execute(AUDIT, (1_i64, "x"));
    let scan = batch.scan_descending(ACCOUNT, ());
    let mut answers = batch.run()?;
    if !answers.take(gone)? || answers.take(missing)?.is_some() || answers.take(executed)?.rows != 1 {
        return Err(Error::new("XX000", "a call was answered wrongly"));
    }
    let mut seen = 0;
    let mut cursor = answers.take(scan)?;
    while let Some(row) = cursor.next(call)? {
        seen += row.get::<i64>(0)?;
    }
    let cursor = call.scan(ACCOUNT, (1_i64,))?;
    cursor.close(call)?;
    Ok(seen + call.query(ALL, ())?.len() as i64)
}

/// Returns its argument, after a table has kept it.
fn echo(call: &mut Call) -> Result<Row> {
    let value = call.argument::<guest::Value>(0)?;
    call.put(EVERY, values![1_i64, value])?;
    let row = call.get(EVERY, 1_i64)?.unwrap_or_default();
    Ok(Row::from(vec![row.get(1)?]))
}

/// Set-returning function: the numbers below its argument. Some rows are almost as large as a row can be.
fn numbers(call: &mut Call) -> Result<()> {
    let count = call.arguments::<i64>()?;
    let text = |number| if number % 5_000 == 4_999 { "x".repeat(1_000_000) } else { "a row".to_owned() };
    (0..count).try_for_each(|number| call.emit((number, text(number))))
}

fn panics(call: &mut Call) -> Result<i64> {
    let row = call.get(ACCOUNT, 1_i64)?.unwrap_or_default();
    let at = usize::try_from(call.argument::<i64>(0)?)?;
    row[at].is_null().then_some(1).ok_or_else(|| Error::new("P0001", "not null"))
}

/// Goes on after an error of a call, in vain.
fn goes_on(call: &mut Call) -> Result<i64> {
    let _ = call.insert(ACCOUNT, values![1_i64, 0_i64]);
    let _ = call.put(ACCOUNT, values![2_i64, 0_i64]);
    Ok(1)
}

fn loops(_call: &mut Call) -> Result<i64> {
    loop {
        std::hint::spin_loop();
    }
}
