//! Tests that New-Order and Payment do what clauses 2.4.2 and 2.5.2 say, to the cent.

use crate::support::{SCALE, loaded, patch};
use arrow_array::cast::AsArray;
use engine::{Begin, Engine, Row, Table, Value};
use stage::Class;
use workloads::tpcc::columns::{customer, district, history, item, order_line, orders, stock, warehouse};
use workloads::tpcc::{Inputs, NewOrderInput, NewOrderLine, PaymentInput, Whom, attempt_payment, check, new_order};

const NORMAL: Begin = Begin::new(Class::Normal);

/// Returns the result of `look` on the row with this primary key.
fn look<R>(engine: &Engine, table: &Table, key: &[i32], look: impl FnOnce(Row<'_>) -> R) -> R {
    let key: Vec<Value<'_>> = key.iter().map(|id| Value::Int32(*id)).collect();
    look(engine.begin(NORMAL).get(table, 0, &key).unwrap().unwrap())
}

/// Goal: every value that New-Order writes or returns. Method: an order of two lines, one of them remote and from a stock
/// that is nearly empty, against the rows as they were before.
pub fn an_order_writes_what_the_specification_says() {
    let (engine, tables) = loaded(1);
    patch(&engine, &tables.stock, &[2, 8], |row| row.set_i32(stock::S_QUANTITY, 13));
    patch(&engine, &tables.stock, &[1, 7], |row| row.set_i32(stock::S_QUANTITY, 13));
    for table in [&tables.item, &tables.stock] {
        let (key, data) =
            if table.name() == "tpcc.item" { (vec![8], item::I_DATA) } else { (vec![2, 8], stock::S_DATA) };
        patch(&engine, table, &key, |row| row.set_text(data, "it is the ORIGINAL one, not a copy"));
    }
    let price = |id| look(&engine, &tables.item, &[id], |row| row.get_decimal(item::I_PRICE));
    let line = |item, supply_warehouse, quantity| NewOrderLine { item, supply_warehouse, quantity };
    let input = NewOrderInput::new(1, 2, 3, 99, &[line(7, 1, 3), line(8, 2, 4)]);
    let txn = engine.begin(NORMAL);
    let output = new_order(&txn, &tables, &input).unwrap();
    txn.commit().unwrap();

    let number = SCALE.customers + 1;
    assert_eq!(output.order, number);
    assert_eq!(output.brand_lines, 1);
    let discount = look(&engine, &tables.customer, &[1, 2, 3], |row| row.get_decimal(customer::C_DISCOUNT));
    let warehouse_tax = look(&engine, &tables.warehouse, &[1], |row| row.get_decimal(warehouse::W_TAX));
    let district_tax = look(&engine, &tables.district, &[1, 2], |row| row.get_decimal(district::D_TAX));
    let sum = 3 * price(7) + 4 * price(8);
    assert_eq!(output.total, sum * (10_000 - discount) * (10_000 + warehouse_tax + district_tax));

    look(&engine, &tables.district, &[1, 2], |row| assert_eq!(row.get_i32(district::D_NEXT_O_ID), number + 1));
    look(&engine, &tables.orders, &[1, 2, number], |row| {
        use orders::*;
        assert_eq!([O_C_ID, O_OL_CNT, O_ALL_LOCAL].map(|column| row.get_i32(column)), [3, 2, 0]);
        assert_eq!(row.get_timestamp(O_ENTRY_D), 99);
        assert!(row.is_null(O_CARRIER_ID));
    });
    look(&engine, &tables.new_order, &[1, 2, number], |_| ());
    let expected = [(10, 0), (100, 1)];
    for (at, (line, (left, remote_lines))) in input.lines().iter().zip(expected).enumerate() {
        use {order_line::*, stock::*};
        let info = look(&engine, &tables.order_line, &[1, 2, number, at as i32 + 1], |row| {
            let columns = [OL_I_ID, OL_SUPPLY_W_ID, OL_QUANTITY];
            assert_eq!(columns.map(|column| row.get_i32(column)), [line.item, line.supply_warehouse, line.quantity]);
            assert_eq!(row.get_decimal(OL_AMOUNT), i128::from(line.quantity) * price(line.item));
            assert!(row.is_null(OL_DELIVERY_D));
            row.get_text(OL_DIST_INFO).to_owned()
        });
        look(&engine, &tables.stock, &[line.supply_warehouse, line.item], |row| {
            let columns = [S_QUANTITY, S_ORDER_CNT, S_REMOTE_CNT];
            assert_eq!(columns.map(|column| row.get_i32(column)), [left, 1, remote_lines]);
            assert_eq!(row.get_decimal(S_YTD), i128::from(line.quantity));
            assert_eq!(row.get_text(S_DIST_02), info);
        });
    }
    assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
}

/// Goal: the customer of a last name is number n/2, rounded up, in the order of first names; with bad credit, the payment
/// is noted. Method: five of that name (and one whose name only begins so), and the third of them has bad credit.
pub fn a_payment_finds_its_customer_by_name() {
    let (engine, tables) = loaded(1);
    let all = [(1, "D"), (3, "E"), (5, "C"), (9, "A"), (12, "B")];
    for (id, first) in all {
        patch(&engine, &tables.customer, &[1, 1, id], |row| {
            row.set_text(customer::C_LAST, "BARBARBAR");
            row.set_text(customer::C_FIRST, first);
        });
    }
    patch(&engine, &tables.customer, &[1, 1, 20], |row| row.set_text(customer::C_LAST, "BARBARBARA"));
    let before = "x".repeat(500);
    patch(&engine, &tables.customer, &[1, 1, 5], |row| {
        row.set_text(customer::C_CREDIT, "BC");
        row.set_text(customer::C_DATA, &before);
    });
    let mut inputs = Inputs::new(SCALE, 1, 0);
    let is_wanted = |input: &PaymentInput| {
        let is_name = matches!(&input.customer, Whom::LastName(name) if name.as_str() == "BARBARBAR");
        is_name && [input.warehouse, input.district, input.customer_warehouse, input.customer_district] == [1; 4]
    };
    let input = std::iter::repeat_with(|| inputs.payment(1)).find(is_wanted).unwrap();
    attempt_payment(&engine, Class::Normal, &tables, &input).unwrap();

    let amount = i128::from(input.amount_cents);
    look(&engine, &tables.customer, &[1, 1, 5], |row| {
        assert_eq!(row.get_decimal(customer::C_BALANCE), -1_000 - amount);
        assert_eq!(row.get_decimal(customer::C_YTD_PAYMENT), 1_000 + amount);
        assert_eq!(row.get_i32(customer::C_PAYMENT_CNT), 2);
        let note = format!("5 1 1 1 1 {}.{:02} ", amount / 100, amount % 100);
        let expected: String = note.chars().chain(before.chars()).take(500).collect();
        assert_eq!(row.get_text(customer::C_DATA), expected);
    });
    let ytd = [
        look(&engine, &tables.warehouse, &[1], |row| row.get_decimal(warehouse::W_YTD)),
        look(&engine, &tables.district, &[1, 1], |row| row.get_decimal(district::D_YTD)),
    ];
    assert_eq!(ytd, [60_000 + amount, 30_000 + amount]);
    let names = [
        look(&engine, &tables.warehouse, &[1], |row| row.get_text(warehouse::W_NAME).to_owned()),
        look(&engine, &tables.district, &[1, 1], |row| row.get_text(district::D_NAME).to_owned()),
    ];
    let columns = [history::H_DATA];
    let batches = engine.snapshot().scan(&tables.history, &columns, 1_024).split(1);
    let notes: Vec<String> = batches
        .into_iter()
        .flatten()
        .flat_map(|batch| {
            batch.column(0).as_string_view().iter().map(|text| text.unwrap().to_owned()).collect::<Vec<_>>()
        })
        .collect();
    assert!(notes.contains(&names.join("    ")));
    assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
}
