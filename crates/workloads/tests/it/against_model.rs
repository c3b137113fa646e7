//! All five procedures compared with the model: their results, and every row that they leave.

use crate::model::Model;
use crate::support::{SCALE, loaded};
use engine::{Begin, Engine, Error, Isolation, Txn};
use stage::Class;
use std::sync::Arc;
use workloads::tpcc::{
    Input, Inputs, Mix, Statements, TpccTables, TransactionKind, check, delivery, new_order, order_status, payment,
    stock_level,
};

/// Runs one input in the engine and in the model, and compares both results.
fn compare(engine: &Engine, tables: &TpccTables, model: &mut Model, isolation: Isolation, input: &Input) {
    let txn = engine.begin(Begin::new(Class::Normal).isolation(isolation));
    let is_same = |txn: &Txn<'_>| match input {
        Input::NewOrder(input) => {
            let output = match new_order(txn, tables, input) {
                Ok(output) => Some(output),
                Err(error) => {
                    assert_eq!(error, Error::RolledBack);
                    None
                }
            };
            assert_eq!(output, model.new_order(input));
            output.is_some()
        }
        Input::Payment(input) => {
            assert_eq!(payment(txn, tables, input).unwrap(), model.payment(input));
            true
        }
        Input::OrderStatus(input) => {
            assert_eq!(order_status(txn, tables, input).unwrap(), model.order_status(input));
            true
        }
        Input::Delivery(input) => {
            assert_eq!(delivery(txn, tables, input).unwrap(), model.delivery(input));
            true
        }
        Input::StockLevel(input) => {
            assert_eq!(stock_level(txn, tables, input).unwrap(), model.stock_level(input));
            true
        }
    };
    if { is_same }(&txn) {
        txn.commit().unwrap();
    }
}

/// Goal: each procedure does what the specification says, no more and no less. Method: 200 transactions of the standard's
/// mix and twenty more of each rare kind, at each isolation level; outputs one by one, and all rows at the end. Deliveries
/// go on until a district has nothing left to deliver.
pub fn all_five_procedures_agree_with_a_slow_model() {
    for (seed, isolation) in
        [(1, Isolation::ReadCommitted), (2, Isolation::RepeatableRead), (3, Isolation::Serializable)]
    {
        let (engine, tables) = loaded(seed);
        let mut model = Model::of(&engine, &tables);
        let mut inputs = Inputs::new(SCALE, seed, 0);
        let mut run = |input: Input| compare(&engine, &tables, &mut model, isolation, &input);
        (0..200).for_each(|turn| run(inputs.next(Mix::Standard, turn % SCALE.warehouses + 1)));
        for kind in [TransactionKind::OrderStatus, TransactionKind::StockLevel, TransactionKind::Delivery] {
            (0..20).for_each(|turn| run(inputs.entry(kind, turn % SCALE.warehouses + 1)));
        }
        (0..60).for_each(|_| run(inputs.entry(TransactionKind::Delivery, 1)));
        assert_eq!(Model::of(&engine, &tables), model.in_order());
        assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
    }
}

/// Goal: New-Order and Payment, sent statement by statement, do the same. Method: 100 of each against the model; every
/// statement runs twice where it only reads and locks, as it does when it had to wait.
pub fn statement_lists_agree_with_the_model() {
    let (engine, tables) = loaded(1);
    let tables = Arc::new(tables);
    let mut model = Model::of(&engine, &tables);
    let mut inputs = Inputs::new(SCALE, 5, 0);
    for turn in 0..200 {
        let input = inputs.next(Mix::NewOrderPayment, turn % SCALE.warehouses + 1);
        let (mut statements, repeated, commits) = match &input {
            Input::NewOrder(input) => {
                let statements = Statements::new_order(Arc::clone(&tables), *input);
                assert_eq!(statements.len(), 5 + 4 * input.lines().len());
                (statements, [0, 1, 6].as_slice(), model.new_order(input).is_some())
            }
            Input::Payment(input) => {
                model.payment(input);
                (Statements::payment(Arc::clone(&tables), *input), [0, 2, 4].as_slice(), true)
            }
            other => panic!("{other:?} is in no mix of the two"),
        };
        let count = statements.len();
        let txn = engine.begin(Begin::new(Class::Normal));
        let mut run = |at| {
            if repeated.contains(&at) {
                statements.run(at, &txn)?;
            }
            statements.run(at, &txn)
        };
        let ended = (0..count).try_for_each(&mut run);
        assert_eq!(ended, if commits { Ok(()) } else { Err(Error::RolledBack) });
        if commits {
            txn.commit().unwrap();
        }
    }
    assert_eq!(Model::of(&engine, &tables), model.in_order());
    assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
}
