//! Tests that the random entries and the initial population have the specification's shape.

use super::random::last_name;
use super::*;
use engine::{Engine, EngineConfig};

fn inputs(warehouses: i32) -> Inputs {
    Inputs::new(Scale::spec(warehouses), 1, 2)
}

#[test]
fn last_names_are_made_of_three_syllables() {
    assert_eq!(last_name(371).as_str(), "PRICALLYOUGHT");
    assert_eq!(last_name(40).as_str(), "BARPRESBAR");
    assert_eq!(last_name(777).as_str(), "CALLYCALLYCALLY");
}

#[test]
fn uniform_numbers_reach_both_ends_and_are_even() {
    let mut random = Random::new(3);
    let mut counts = [0_u32; 10];
    (0..100_000).for_each(|_| counts[random.uniform(1, 10) as usize - 1] += 1);
    assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    assert_eq!(random.uniform(7, 7), 7);
    assert!((i32::MIN..=i32::MAX).contains(&random.uniform(i32::MIN, i32::MAX)));
}

#[test]
fn nurand_stays_in_its_range_and_is_skewed() {
    let mut random = Random::new(4);
    let mut counts = vec![0_u32; 3_001];
    for _ in 0..300_000 {
        counts[random.nurand(1_023, 259, 1, 3_000) as usize] += 1;
    }
    assert_eq!(counts[0], 0);
    let most = *counts.iter().max().unwrap();
    assert!(500 < most, "a uniform distribution has about 100 at each place, not {most} at the first");
}

#[test]
fn orders_have_the_shares_that_the_specification_asks_for() {
    let mut inputs = inputs(4);
    let orders: Vec<NewOrderInput> = (0..50_000).map(|_| inputs.new_order(3)).collect();
    let unused = Scale::spec(4).items + 1;
    let rolled_back = orders.iter().filter(|order| order.lines().last().unwrap().item == unused).count();
    assert!((400..600).contains(&rolled_back), "{rolled_back}");
    let lines: Vec<&NewOrderLine> = orders.iter().flat_map(|order| order.lines()).collect();
    assert!((9.9..10.1).contains(&(lines.len() as f64 / orders.len() as f64)));
    let remote = lines.iter().filter(|line| line.supply_warehouse != 3).count() as f64 / lines.len() as f64;
    assert!((0.009..0.011).contains(&remote), "{remote}");
    assert!(lines.iter().all(|line| (1..=4).contains(&line.supply_warehouse) && (1..=10).contains(&line.quantity)));
    assert!(orders.iter().all(|order| (5..=15).contains(&order.lines().len()) && order.warehouse == 3));
    assert!(orders.iter().all(|order| order.lines().iter().rev().skip(1).all(|line| line.item < unused)));
}

#[test]
fn payments_have_the_shares_that_the_specification_asks_for() {
    let mut inputs = inputs(4);
    let payments: Vec<PaymentInput> = (0..50_000).map(|_| inputs.payment(2)).collect();
    let share = |test: &dyn Fn(&PaymentInput) -> bool| {
        payments.iter().filter(|payment| test(payment)).count() as f64 / payments.len() as f64
    };
    let remote = share(&|payment| payment.customer_warehouse != 2);
    assert!((0.14..0.16).contains(&remote), "{remote}");
    let by_name = share(&|payment| matches!(payment.customer, Whom::LastName(_)));
    assert!((0.59..0.61).contains(&by_name), "{by_name}");
    assert!(payments.iter().all(|payment| (100..=500_000).contains(&payment.amount_cents)));
}

#[test]
fn one_warehouse_has_no_remote_entries() {
    let mut inputs = inputs(1);
    for _ in 0..2_000 {
        assert!(inputs.new_order(1).lines().iter().all(|line| line.supply_warehouse == 1));
        assert_eq!(inputs.payment(1).customer_warehouse, 1);
    }
}

#[test]
fn the_population_has_the_expected_rows_and_is_consistent() {
    let engine = Engine::new(EngineConfig::in_memory());
    let scale = Scale::small(2);
    let mut last = None;
    let tables = load(&engine, scale, 5, &mut |progress| last = Some(progress)).unwrap();
    let snapshot = engine.snapshot();
    let rows = |table: &std::sync::Arc<engine::Table>| -> usize {
        snapshot.scan(table, &[0], 1_024).split(1).into_iter().flatten().map(|batch| batch.num_rows()).sum()
    };
    let counts = tables.all().map(rows);
    let lines = counts[6];
    assert_eq!(counts, [2, 20, 1_200, 1_200, 360, 1_200, lines, 2_000, 4_000]);
    assert!((11_000..13_000).contains(&lines), "{lines}");
    let progress = last.unwrap();
    assert_eq!(progress.rows_count as usize, counts.iter().sum::<usize>());
    assert_eq!(check_loaded(&snapshot, &tables), Ok(()));
}

#[test]
fn a_deck_deals_the_standards_shares_each_time() {
    let mut inputs = inputs(1);
    let mut orders = std::collections::HashSet::new();
    let counts = |kinds: &[TransactionKind]| {
        TransactionKind::ALL.map(|kind| kinds.iter().filter(|dealt| **dealt == kind).count())
    };
    for _ in 0..20 {
        let kinds: Vec<TransactionKind> = (0..100).map(|_| inputs.next(Mix::Standard, 1).kind()).collect();
        assert_eq!(counts(&kinds), [45, 43, 4, 4, 4]);
        orders.insert(kinds);
    }
    assert_eq!(orders.len(), 20, "each deck is shuffled anew");
    let mut inputs = Inputs::new(Scale::spec(1), 1, 3);
    let kinds: Vec<TransactionKind> = (0..100).map(|_| inputs.next(Mix::Steady, 1).kind()).collect();
    let [entered, .., delivered, _] = counts(&kinds);
    assert!(entered <= 10 * delivered, "orders pile up: {kinds:?}");
    let mut inputs = Inputs::new(Scale::spec(1), 1, 3);
    let payments = (0..100).filter(|_| inputs.next(Mix::NewOrderPayment, 1).kind() == TransactionKind::Payment).count();
    assert_eq!(payments, 50);
}

#[test]
fn the_rare_entries_have_the_shares_that_the_specification_asks_for() {
    let mut inputs = inputs(4);
    const COUNT: usize = 50_000;
    let questions: Vec<OrderStatusInput> = (0..COUNT).map(|_| inputs.order_status(2)).collect();
    let by_name = questions.iter().filter(|question| matches!(question.customer, Whom::LastName(_))).count();
    assert!((0.59..0.61).contains(&(by_name as f64 / COUNT as f64)), "{by_name}");
    let evenly = |values: &mut dyn Iterator<Item = i32>, low: i32, high: i32| {
        let mut counts = vec![0_usize; (high - low + 1) as usize];
        values.for_each(|value| counts[(value - low) as usize] += 1);
        let expected = COUNT / counts.len();
        assert!(counts.iter().all(|count| count.abs_diff(expected) < expected / 10), "{counts:?}");
    };
    evenly(&mut questions.iter().map(|question| question.district), 1, 10);
    evenly(&mut (0..COUNT).map(|_| inputs.delivery(2).carrier), 1, 10);
    let levels: Vec<StockLevelInput> = (0..COUNT).map(|_| inputs.stock_level(2)).collect();
    evenly(&mut levels.iter().map(|level| level.threshold), 10, 20);
    evenly(&mut levels.iter().map(|level| level.district), 1, 10);
    assert!(questions.iter().all(|question| question.warehouse == 2) && inputs.delivery(2).districts == 10);
}

#[test]
fn a_search_for_original_finds_it_anywhere() {
    for text in ["ORIGINAL", "xORIGINAL", "ORIGINALx", "OORIGINAL", "ORIGIORIGINALNAL"] {
        assert!(new_order::is_original(text), "{text}");
    }
    for text in ["", "ORIGINA", "RIGINAL", "ORIGINaL", "ORIGINxAL"] {
        assert!(!new_order::is_original(text), "{text}");
    }
}
