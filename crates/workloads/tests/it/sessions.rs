//! Tests that transactions in sessions wait for rows that others hold, and neither lose nor repeat anything.

use crate::support::{SCALE, commit, loaded};
use engine::{Begin, Direction, Engine, Isolation, Session, SessionOptions, Step, Value};
use stage::Class;
use workloads::tpcc::{
    DeliveryInput, DeliveryOutput, Input, NewOrderInput, NewOrderLine, ProcedureOutcome, TpccTables, check, delivery,
    try_run,
};

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

fn session(engine: &Engine) -> Session {
    engine.session(SessionOptions::new(Class::Normal))
}

fn deliver(carrier: i32) -> DeliveryInput {
    DeliveryInput { warehouse: 1, districts: SCALE.districts, carrier, delivered_us: 7 }
}

/// Returns the numbers in `new_order` of warehouse 1's first district, in their order.
fn new_orders(engine: &Engine, tables: &TpccTables) -> Vec<i32> {
    let place = [Value::Int32(1), Value::Int32(1)];
    let txn = engine.begin(Begin::new(Class::Normal));
    txn.range(&tables.new_order, 0, &place, Direction::Forward).unwrap().map(|row| row.get_i32(0)).collect()
}

/// Goal: of two deliveries of one district, one waits for the other, and then delivers what is left: the next order if the
/// first has committed, the same one if not. Method: the first is open in a session while the second comes, at each
/// level; the second must be parked, without effect, and done when it is called again.
pub fn two_deliveries_never_deliver_the_same_order() {
    for isolation in LEVELS {
        for commits in [true, false] {
            let (engine, tables) = loaded(1);
            let begin = Begin::new(Class::Normal).isolation(isolation);
            let before = new_orders(&engine, &tables);
            let (mut first, mut second) = (session(&engine), session(&engine));
            first.begin(begin).unwrap();
            let output: DeliveryOutput = first.execute(|txn| delivery(txn, &tables, &deliver(1))).unwrap();
            assert_eq!(output.orders[0], Some(before[0]));
            let mut call = || second.try_run(begin, |txn| delivery(txn, &tables, &deliver(2))).unwrap();
            assert!(matches!(call(), Step::Parked(_)));
            assert!(matches!(call(), Step::Parked(_)), "nothing has changed");
            if commits {
                first.commit().unwrap();
            } else {
                first.rollback();
            }
            let Step::Done(output) = call() else { panic!("the grant is there") };
            assert_eq!(output.orders[0], Some(before[usize::from(commits)]), "{isolation:?} {commits}");
            assert_eq!(new_orders(&engine, &tables), before[1 + usize::from(commits)..]);
            assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
        }
    }
}

/// Goal: numbers of orders have no gap and no double, and no quantity is lost, when an order had to wait for another one of
/// its district. Method: as above; both orders take the same item from the same stock.
pub fn an_order_that_waited_has_the_next_number() {
    for isolation in LEVELS {
        let (engine, tables) = loaded(1);
        let begin = Begin::new(Class::Normal).isolation(isolation);
        let line = NewOrderLine { item: 7, supply_warehouse: 1, quantity: 3 };
        let input = Input::NewOrder(NewOrderInput::new(1, 2, 3, 4, &[line, line]));
        let (mut first, mut second) = (session(&engine), session(&engine));
        first.begin(begin).unwrap();
        first.execute(|txn| workloads::tpcc::execute(txn, &tables, &input)).unwrap();
        let mut call = || try_run(&mut second, begin, &tables, &input).unwrap();
        assert!(matches!(call(), Step::Parked(_)));
        first.commit().unwrap();
        assert!(matches!(call(), Step::Done(ProcedureOutcome::Committed)), "{isolation:?}");
        let next = SCALE.customers + 1;
        commit(&engine, |txn| {
            for number in [next, next + 1] {
                assert!(txn.get(&tables.orders, 0, &[1, 2, number].map(Value::Int32)).unwrap().is_some());
            }
        });
        assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
    }
}
