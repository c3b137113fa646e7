//! `overtake mpl throughput`: the share of a database's throughput that a limit keeps.

use super::curves::{Curve, Subject, check_count};
use super::limits::MplRange;
use super::refuse;
use crate::report::{Report, TextTable, number};
use gate::model::{Network, Station};
use host::refusal::Refusal;
use serde::Serialize;

/// Maximum of the limits: above this, a curve takes long and shows nothing new.
const MPL_MAX: usize = 10_000;
const STATIONS_MAX: usize = 64;

/// Arguments of `mpl throughput`.
#[derive(clap::Args, Debug, Serialize)]
pub struct ThroughputArguments {
    /// Time that a transaction needs of each resource when it is alone, in any unit: CPU, disks, the log, a hot lock.
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', required_unless_present = "balanced")]
    demand: Vec<f64>,
    /// Number of transactions that each resource serves at a time, in the order of the demands [default: 1 each].
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',')]
    servers: Vec<u32>,
    /// Time in which a transaction holds its place and uses no resource: its client thinks, a packet travels.
    #[arg(long, value_name = "TIME", default_value_t = 0.0)]
    think: f64,
    /// Number of equal resources: the worst case, instead of demands; N, or A..B for up to 16 curves.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["demand", "servers"], value_parser = MplRange::parse::<STATIONS_MAX>)]
    balanced: Option<MplRange>,
    /// Limits, N or A..B, up to 10,000.
    #[arg(long, value_name = "N|A..B", default_value = "1..100", value_parser = MplRange::parse::<MPL_MAX>)]
    mpl: MplRange,
}

const SUBJECT: Subject = Subject {
    figure: "throughput",
    title: "Throughput with at most so many transactions, as a share of what the resources allow",
    unit: "share of the largest throughput",
    least: "The least MPL that keeps this share of the largest throughput",
    thresholds: [("keep_80", "80 %"), ("keep_90", "90 %"), ("keep_95", "95 %"), ("keep_99", "99 %")],
};
/// Shares of the throughput that are kept: the thresholds of [`SUBJECT`].
const KEEP: [f64; 4] = [0.8, 0.9, 0.95, 0.99];

/// Calculates and reports.
///
/// # Errors
/// A [`Refusal`] if the arguments make no network.
pub fn run(arguments: &ThroughputArguments) -> anyhow::Result<Report> {
    let networks = networks(arguments)?;
    let mut report = Report::calculated("mpl throughput", arguments)?;
    if let [(_, _, network)] = &networks[..] {
        report.table(values(network, arguments.mpl));
        report.table(loads(network, arguments));
    }
    let curve = |(name, label, network): &(String, String, Network)| {
        let relative = network.relative_throughput(arguments.mpl.last);
        Curve {
            name: name.clone(),
            label: label.clone(),
            points: arguments.mpl.all().map(|mpl| (mpl, relative[mpl - 1])).collect(),
            least: KEEP.map(|keep| network.least_mpl(keep)).to_vec(),
        }
    };
    let curves: Vec<Curve> = networks.iter().map(curve).collect();
    SUBJECT.report(&curves, arguments.mpl, &mut report);
    report.note(
        "Calculated for a closed network: whoever ends is replaced at once. What locks and caches cost is not in it.",
    );
    Ok(report)
}

/// Returns name, label and network of each curve.
fn networks(arguments: &ThroughputArguments) -> anyhow::Result<Vec<(String, String, Network)>> {
    if let Some(counts) = arguments.balanced {
        check_count(counts.all().count())?;
        let balanced = |count: usize| {
            let stations = vec![Station::queue(1.0, 1); count];
            let network = Network::new(stations, arguments.think).map_err(refuse)?;
            Ok((format!("k{count}"), format!("{count} equal"), network))
        };
        return counts.all().map(balanced).collect();
    }
    let servers = match &arguments.servers[..] {
        [] => vec![1; arguments.demand.len()],
        servers => servers.to_vec(),
    };
    if servers.len() != arguments.demand.len() {
        let (demands, counts) = (arguments.demand.len(), servers.len());
        let message =
            format!("--servers has {counts} numbers, but --demand has {demands}: one for each resource is needed");
        return Err(Refusal::new(message).into());
    }
    let stations = arguments.demand.iter().zip(servers).map(|(demand, servers)| Station::queue(*demand, servers));
    let network = Network::new(stations.collect(), arguments.think).map_err(refuse)?;
    Ok(vec![("all".to_owned(), "these resources".to_owned(), network)])
}

fn values(network: &Network, limits: MplRange) -> TextTable {
    let mut table = TextTable::new(SUBJECT.title, &["MPL", "share", "per unit of time", "time of one"]);
    let relative = network.relative_throughput(limits.last);
    for mpl in limits.all().filter(|mpl| limits.shows(*mpl)) {
        let throughput = relative[mpl - 1] * network.throughput_max();
        // Little's law: the time inside, without the wait for a slot.
        let time = mpl as f64 / throughput;
        table.row([mpl.to_string(), number(relative[mpl - 1]), number(throughput), number(time)]);
    }
    table
}

fn loads(network: &Network, arguments: &ThroughputArguments) -> TextTable {
    let title = format!("The resources at MPL {}", arguments.mpl.last);
    let mut table = TextTable::new(title, &["resource", "busy %", "transactions there", "time there of one"]);
    for (at, load) in network.loads(arguments.mpl.last).iter().enumerate() {
        let numbers = [100.0 * load.utilisation, load.transactions, load.residence].map(number);
        table.row([(at + 1).to_string()].into_iter().chain(numbers));
    }
    table
}
