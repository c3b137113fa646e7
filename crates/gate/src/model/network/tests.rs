//! Goal: throughput and loads are those of the Markov chain. Method: chains that are solved without any product form, closed
//! forms where there are some, sums of logarithms where numbers are large.

use super::*;
use crate::model::matrix::Matrix;
use proptest::prelude::*;

const CLOSE: f64 = 1e-11;

#[track_caller]
fn assert_close(found: f64, expected: f64, what: impl std::fmt::Debug) {
    assert!((found / expected - 1.0).abs() <= CLOSE, "{what:?}: {found} instead of {expected}");
}

/// A station that a test has made, in numbers.
type Plain = (f64, Option<u32>);

/// Lists every way to distribute `population` transactions.
fn states(stations: usize, population: u32) -> Vec<Vec<u32>> {
    if stations == 1 {
        return vec![vec![population]];
    }
    let with_first = |first: u32| {
        let rest = states(stations - 1, population - first);
        rest.into_iter().map(move |rest| [vec![first], rest].concat())
    };
    (0..=population).flat_map(with_first).collect()
}

/// Throughput, and mean transactions at each station, of the Markov chain in which a transaction that leaves a station goes to the
/// next one, each time for its whole demand.
fn chain(stations: &[Plain], population: u32) -> (f64, Vec<f64>) {
    let states = states(stations.len(), population);
    let rate = |state: &[u32], at: usize| {
        let (demand, servers) = stations[at];
        f64::from(servers.map_or(state[at], |servers| state[at].min(servers))) / demand
    };
    let flow = |from: usize, to: usize| -> f64 {
        let moved = |at: usize| {
            let mut state = states[from].clone();
            if state[at] == 0 {
                return None;
            }
            state[at] -= 1;
            state[(at + 1) % stations.len()] += 1;
            (state == states[to]).then(|| rate(&states[from], at))
        };
        if from == to { 0.0 } else { (0..stations.len()).filter_map(moved).sum() }
    };
    let weights = Matrix::from_fn(states.len(), states.len(), flow).stationary();
    let mean = |value: &dyn Fn(&[u32]) -> f64| {
        states.iter().zip(&weights).map(|(state, weight)| value(state) * weight).sum::<f64>()
    };
    let transactions = (0..stations.len()).map(|at| mean(&|state| f64::from(state[at]))).collect();
    (mean(&|state| rate(state, 0)), transactions)
}

fn network(stations: &[Plain], think: f64) -> Network {
    let station = |(demand, servers): &Plain| Station { demand: *demand, servers: *servers };
    Network::new(stations.iter().map(station).collect(), think).unwrap()
}

#[test]
fn small_networks_are_their_markov_chains() {
    let cases: [&[Plain]; 5] = [
        &[(1.0, Some(1)), (0.3, Some(2)), (2.5, Some(3))],
        &[(4.0, Some(4)), (1.0, Some(1)), (0.5, Some(1))],
        &[(0.7, Some(1)), (6.0, None), (2.0, Some(5))],
        &[(3.0, Some(3)), (3.0, Some(3)), (0.01, Some(1))],
        &[(1.0, Some(1)), (5.0, Some(2))],
    ];
    for stations in cases {
        let network = network(stations, 0.0);
        for population in 1..=8 {
            let (throughput, transactions) = chain(stations, population);
            let found = network.throughput(population as usize);
            assert_close(found[population as usize - 1], throughput, (stations, population));
            for (load, transactions) in network.loads(population as usize).iter().zip(transactions) {
                assert_close(load.transactions, transactions, (stations, population));
                assert_close(load.residence, transactions / throughput, (stations, population));
            }
        }
    }
}

#[test]
fn thinking_is_a_delay_station_that_limits_nothing() {
    let thinking = network(&[(1.0, Some(1)), (0.3, Some(2))], 6.0);
    let delayed = network(&[(1.0, Some(1)), (0.3, Some(2)), (6.0, None)], 0.0);
    for (one, other) in thinking.throughput(30).iter().zip(delayed.throughput(30)) {
        assert_close(*one, other, "think time");
    }
    assert_eq!(thinking.throughput_max(), 1.0);
    for (absolute, share) in
        network(&[(4.0, Some(2))], 1.0).throughput(9).iter().zip(network(&[(4.0, Some(2))], 1.0).relative_throughput(9))
    {
        assert_close(*absolute, share * 0.5, "two transactions in 4 units of time at most");
    }
    // Transactions that only think are limited by nothing but their number.
    assert_close(thinking.throughput(1)[0], 1.0 / 7.3, "alone");
    assert_close(thinking.loads(5)[1].utilisation, thinking.throughput(5)[4] * 0.15, "utilisation");
}

/// `N` machines that run for a while, and are repaired by a few: one-dimensional, so that logarithms can be summed.
fn machine_repair(think: f64, demand: f64, servers: u32, population: usize) -> f64 {
    let mut logarithm = 0.0;
    let mut logarithms = vec![0.0];
    for broken in 1..=population {
        let arrivals = (population - broken + 1) as f64 / think;
        let repairs = (broken as f64).min(f64::from(servers)) / demand;
        logarithm += (arrivals / repairs).ln();
        logarithms.push(logarithm);
    }
    let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight = |broken: usize| (logarithms[broken] - largest).exp();
    let all: f64 = (0..=population).map(weight).sum();
    let running: f64 = (0..=population).map(|broken| (population - broken) as f64 * weight(broken)).sum();
    running / all / think
}

#[test]
fn many_servers_and_many_transactions_lose_no_digits() {
    for (think, demand, servers) in [(50.0, 64.0, 64), (900.0, 1_000.0, 1_000), (1e4, 1.0, 1), (1.0, 3_000.0, 1_000)] {
        let found = network(&[(demand, Some(servers))], think).throughput(10_000);
        for population in [1, 2, 63, 64, 65, 100, 999, 1_000, 1_001, 1_900, 5_000, 10_000] {
            let expected = machine_repair(think, demand, servers, population);
            assert_close(found[population - 1], expected, (think, demand, servers, population));
        }
        assert!(found.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-12)), "{think} {demand} {servers}");
    }
}

#[test]
fn loads_of_many_servers_add_up() {
    let population = 2_000;
    let network = network(&[(64.0, Some(64)), (900.0, Some(1_000)), (0.9, Some(1)), (300.0, None)], 100.0);
    let throughput = network.throughput(population)[population - 1];
    let loads = network.loads(population);
    let there: f64 = loads.iter().map(|load| load.transactions).sum();
    assert_close(there + 100.0 * throughput, population as f64, "all transactions are somewhere");
    assert_close(loads[1].utilisation, 0.9 * throughput, "the second station");
    assert_close(loads[3].residence, 300.0, "a delay");
    assert_eq!(network.loads(0)[0], StationLoad { residence: 64.0, transactions: 0.0, utilisation: 0.0 });
}

#[test]
fn a_station_that_nobody_uses_changes_nothing() {
    let with = network(&[(1.0, Some(1)), (0.0, Some(3)), (0.0, None), (1.0, Some(1))], 0.0);
    let without = Network::balanced(2).unwrap();
    assert_eq!(with.throughput(50), without.throughput(50));
    assert_eq!(without.throughput(0), []);
}

#[test]
fn nonsense_is_refused() {
    let refused = |stations: Vec<Station>, think| Network::new(stations, think).unwrap_err();
    assert_eq!(refused(vec![], 0.0), ModelError::NoStations);
    assert_eq!(Network::balanced(0), Err(ModelError::NoStations));
    let negative = refused(vec![Station::queue(1.0, 1), Station::queue(-1.0, 1)], 0.0);
    assert_eq!(negative.to_string(), "demand -1 of station 2 is not a finite time of at least 0");
    for demand in [f64::NAN, f64::INFINITY] {
        assert!(matches!(refused(vec![Station::delay(demand)], 0.0), ModelError::Demand { station: 0, .. }));
    }
    assert_eq!(refused(vec![Station::queue(1.0, 0)], 0.0), ModelError::NoServers { station: 0 });
    assert_eq!(refused(vec![Station::queue(0.0, 1), Station::delay(5.0)], 0.0), ModelError::NoDemand);
    assert_eq!(refused(vec![Station::queue(1.0, 1)], -1.0), ModelError::Think(-1.0));
    let network = Network::balanced(2).unwrap();
    for keep in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(matches!(network.least_mpl(keep), Err(ModelError::OutOfRange { .. })), "{keep}");
    }
    assert!(network.least_mpl_of(0, 0.8).is_err());
    assert_eq!(network.least_mpl(0.999_999_9), Err(ModelError::OutOfReach { mpl_max: POPULATION_MAX }));
}

fn any_station() -> impl Strategy<Value = Plain> {
    (1e-3..1e3_f64, prop::option::weighted(0.8, 1..40_u32))
}

proptest! {
    /// Goal: more transactions never do less, and never more than the bounds of operational analysis.
    #[test]
    fn throughput_grows_within_its_bounds(
        stations in prop::collection::vec(any_station(), 0..5),
        queue in 1e-3..1e3_f64,
        think in 0.0..1e3_f64,
    ) {
        let network = network(&[stations, vec![(queue, Some(1))]].concat(), think);
        let alone = think + network.stations.iter().map(|station| station.demand).sum::<f64>();
        let mut last = 0.0;
        for (at, throughput) in network.throughput(60).into_iter().enumerate() {
            let bound = network.throughput_max().min((at + 1) as f64 / alone);
            prop_assert!(last <= throughput * (1.0 + 1e-12) && throughput <= bound * (1.0 + 1e-12));
            last = throughput;
        }
    }

    /// Goal: a queue in front of many servers is never better than one fast server that does their work, and never worse
    /// than one of them. The unit of time does not matter.
    #[test]
    fn many_servers_are_between_one_and_one_fast(servers in 2..20_u32, demand in 0.1..10.0_f64, unit in 1e-9..1e9_f64) {
        let throughput = |demand: f64, servers: u32| network(&[(demand, Some(servers)), (1.0, Some(1))], 0.0).throughput(40);
        let fast = throughput(demand / f64::from(servers), 1);
        let slow = throughput(demand, 1);
        let scaled = network(&[(demand * unit, Some(servers)), (unit, Some(1))], 0.0).throughput(40);
        for (at, found) in throughput(demand, servers).into_iter().enumerate() {
            prop_assert!(slow[at] <= found * (1.0 + 1e-12) && found <= fast[at] * (1.0 + 1e-12));
            prop_assert!((scaled[at] * unit / found - 1.0).abs() < 1e-10);
        }
    }
}
