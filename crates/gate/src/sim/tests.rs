//! The simulator against results that are known exactly, so that the rest of its results can be believed.

use super::*;

fn closed(setup: &Setup, mpl: u32, seed: u64) -> Simulation {
    Simulation::new(setup, Load::Closed { clients: 100, think: 0.0 }, GateSettings::of_priorities(mpl), 0.0, seed)
}

fn near(seen: f64, known: f64, by: f64, what: &str) {
    assert!((seen - known).abs() <= by * known, "{what}: {seen}, and {known} is known");
}

#[test]
fn a_balanced_network_does_what_mean_value_analysis_says() {
    for (disks, mpl) in [(1u32, 3u32), (2, 1), (2, 5), (4, 12), (4, 40)] {
        let mut simulation = closed(&Setup::balanced_disks(disks, 0.01 * f64::from(disks)), mpl, 1);
        let seen = simulation.observe(60_000);
        let (k, n) = (f64::from(disks), f64::from(mpl));
        near(seen.throughput.mean, 100.0 * n / (n + k - 1.0), 0.02, "transactions in a second");
    }
}

#[test]
fn a_set_up_does_what_its_network_says() {
    // Two processors; a disk; four disks, and sizes that vary.
    for (setup, mpl) in [(1, 2u32), (4, 1), (9, 10)] {
        let setup = Setup {
            workload: Workload { locks: Locks::NONE, ..Setup::all()[setup].workload.clone() },
            ..Setup::all()[setup].clone()
        };
        let rate = |mpl| {
            let mut simulation = closed(&setup, mpl, 2);
            simulation.run(10_000);
            simulation.observe(60_000).throughput.mean
        };
        let known = setup.network().relative_throughput(mpl as usize)[mpl as usize - 1];
        let most = setup.network().relative_throughput(100)[99];
        // The same transactions under both limits: so their ratio is known far better than either.
        near(rate(mpl) / rate(100), known / most, 0.01, &setup.name);
    }
}

#[test]
fn mean_response_with_a_limit_is_that_of_the_reference() {
    let reference = include_str!("../../tests/reference/response_time_vs_mpl.csv");
    let known = |load: &str, c2: &str, mpl: &str| {
        let line = reference.lines().find(|line| line.starts_with(&format!("{load},{c2},{mpl},"))).expect("a line");
        line.split(',').nth(3).and_then(|field| field.parse::<f64>().ok()).expect("a number")
    };
    for (load, c2, mpl) in [("0.7", "1", "3"), ("0.7", "5", "1"), ("0.7", "5", "4"), ("0.7", "15", "8")] {
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let setup = Setup::one_processor(0.01, number(c2));
        let settings = GateSettings::of_priorities(number(mpl) as u32);
        let mut simulation = Simulation::new(&setup, Load::Open { rate: number(load) * 100.0 }, settings, 0.0, 5);
        let seen = simulation.observe(1_000_000);
        // As certain as it is by its own account, which is tested as well.
        near(
            seen.response.mean / 0.01,
            known(load, c2, mpl),
            1.5 * seen.response.half_width,
            "mean response in services",
        );
        assert!(seen.response.half_width < 0.12, "{:?}", seen.response);
    }
}

#[test]
fn the_gate_tells_the_demand_and_its_variation_from_outside() {
    for (processors, c2) in [(1, 1.0), (2, 5.0), (1, 15.0)] {
        let setup = Setup { processors, ..Setup::one_processor(0.01, c2) };
        let seen = closed(&setup, 10, 3).observe(400_000);
        near(seen.demand.mean(), 0.01, 0.03, "seconds of a processor");
        near(seen.demand.c2(), c2, 0.08, "C²");
    }
}

#[test]
fn the_flow_equivalent_server_shows_all_lower_limits_at_once() {
    // Seldom more than a few inside; what was seen at each number of them is what a closed system with so many does.
    let setup = Setup::balanced_disks(2, 0.02);
    let settings = GateSettings::of_priorities(20);
    let mut simulation = Simulation::new(&setup, Load::Open { rate: 70.0 }, settings, 0.0, 9);
    let seen = simulation.observe(300_000);
    for n in 1..=6u32 {
        let (seconds, left) = seen.by_active[n as usize];
        let n = f64::from(n);
        near(left as f64 / seconds, 100.0 * n / (n + 1.0), 0.03, "transactions in a second");
    }
}

#[test]
fn locks_have_a_best_limit_and_beyond_it_less_is_done() {
    let setups = Setup::all();
    let setup = &setups[12];
    let rate = |mpl| closed(setup, mpl, 4).observe(20_000).throughput.mean;
    let (few, some, many) = (rate(1), rate(4), rate(100));
    assert!(few < some && many < 0.8 * some, "{few}, {some}, {many}");
}

#[test]
fn a_seed_gives_the_same_run() {
    let run = |seed| closed(&Setup::all()[12], 7, seed).observe(2_000).throughput.mean.to_bits();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn the_important_respond_sooner_behind_a_limit() {
    let setup = &Setup::all()[0];
    let mut simulation =
        Simulation::new(setup, Load::Closed { clients: 100, think: 0.0 }, GateSettings::of_priorities(5), 0.1, 8);
    let seen = simulation.observe(50_000);
    let (high, low) = (seen.classes[0].response.mean(), seen.classes[2].response.mean());
    assert!(10.0 * high < low, "{high} and {low} seconds");
}
