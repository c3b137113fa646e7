//! Goal: both models agree with values that were computed independently. Method: every row of the reference files.

use super::*;

/// Agreement that the reference values ask for; they have 12 digits, of which all but the last are matched.
const CLOSE: f64 = 1e-10;

/// Returns the rows of a file, as numbers, with as many columns as asked.
fn rows<const COLUMNS: usize>(text: &str) -> Vec<[f64; COLUMNS]> {
    let row = |line: &str| -> [f64; COLUMNS] {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        cells.try_into().unwrap()
    };
    let rows: Vec<_> = text.lines().skip(1).map(row).collect();
    assert!(5 < rows.len());
    rows
}

#[track_caller]
fn assert_close(found: f64, expected: f64, what: impl std::fmt::Debug) {
    // A number of 12 digits is printed with that many behind the point when it is near 0.
    let slack = CLOSE * expected.abs() + 1e-16;
    assert!((found - expected).abs() <= slack, "{what:?}: {found} instead of {expected}");
}

#[test]
fn throughput_of_balanced_networks() {
    let rows = rows::<3>(include_str!("../../tests/reference/mva_balanced_relative_throughput.csv"));
    for of_network in rows.chunk_by(|a, b| a[0] == b[0]) {
        let network = Network::balanced(of_network[0][0] as usize).unwrap();
        let found = network.relative_throughput(of_network.len());
        for ([_, mpl, expected], found) in of_network.iter().zip(&found) {
            assert_close(*found, *expected, (of_network[0][0], mpl));
            assert_close(
                found / network.throughput_max().recip(),
                network.throughput(*mpl as usize)[*mpl as usize - 1],
                mpl,
            );
        }
    }
}

#[test]
fn least_limits_of_balanced_networks() {
    for row in rows::<7>(include_str!("../../tests/reference/mva_balanced_min_mpl.csv")) {
        let network = Network::balanced(row[0] as usize).unwrap();
        for (keep, expected) in [0.8, 0.9, 0.95, 0.99].into_iter().zip(&row[1..5]) {
            assert_eq!(network.least_mpl(keep), Ok(*expected as usize), "{row:?} {keep}");
        }
        for (keep, expected) in [0.8, 0.95].into_iter().zip(&row[5..]) {
            assert_eq!(network.least_mpl_of(100, keep), Ok(*expected as usize), "{row:?} {keep} of 100 clients");
        }
    }
}

#[test]
fn parameters_of_h2() {
    for [c2, p, mu1, mu2] in rows(include_str!("../../tests/reference/h2_parameters.csv")) {
        let sizes = H2::with_balanced_means(1.0, c2).unwrap();
        for (found, expected) in [(sizes.p, p), (sizes.mu1, mu1), (sizes.mu2, mu2)] {
            assert_close(found, expected, c2);
        }
    }
}

#[test]
fn response_times() {
    let rows = rows::<7>(include_str!("../../tests/reference/response_time_vs_mpl.csv"));
    for of_model in rows.chunk_by(|a, b| a[..2] == b[..2]) {
        let model = Response::new(of_model[0][0], of_model[0][1], 1).unwrap();
        let curve = model.curve(50).unwrap();
        for row in of_model {
            let mpl = row[2] as usize;
            let found = curve.get(mpl - 1).copied().unwrap_or_else(|| model.at(mpl).unwrap());
            let found = [found.mpl as f64, found.response, found.external_wait, found.waits, found.ratio_to_ps];
            for (found, expected) in found.into_iter().zip(&row[2..]) {
                assert_close(found, *expected, row);
            }
        }
    }
}

#[test]
fn least_limits_of_response_times() {
    for row in rows::<8>(include_str!("../../tests/reference/response_time_min_mpl.csv")) {
        let model = Response::new(row[0], row[1], 1).unwrap();
        assert_close(model.processor_sharing(), row[2], "processor sharing");
        assert_close(pollaczek_khinchine(row[0], row[1]).unwrap(), row[3], "first come first served");
        for (increase, expected) in [0.02, 0.05, 0.1, 0.2].into_iter().zip(&row[4..]) {
            assert_eq!(model.least_mpl(increase), Ok(*expected as usize), "{row:?} {increase}");
        }
    }
}
