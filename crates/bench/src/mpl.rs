//! `overtake bench mpl`: the cost and the gain of a limit on the number of transactions inside (the MPL), and whether
//! the controller finds it; the experiments of Schroeder et al., How to determine a good multi-programming level for
//! external scheduling (ICDE 2006).
//!
//! **Invariant:** except for the parts `tpcb`, `real`, `engine`, `internal`, `cost` and `soak`, everything runs on the
//! simulator of [`gate::sim`], which is a database on virtual time behind the gate and the controller that serve; so
//! the same arguments give the same figures on any machine, with any number of threads.

mod arrivals;
mod controller;
mod figures;
mod lab;
mod priorities;
mod setups;

use super::wire::fronts::{self, real::DatabaseKind, real::Extent, soak};
use crate::report::{Machine, Report, number};
use clap::{Args, ValueEnum};
use gate::sim::Setup;
use host::refusal::Refusal;
use host::stop::Stop;
use lab::{Lab, Lengths};
use serde::Serialize;
use std::time::Duration;

/// Arguments of `bench mpl`.
#[derive(Args, Debug, Serialize)]
pub struct MplArguments {
    /// Parts to measure [default: all parts but `soak`].
    #[arg(value_name = "PART")]
    parts: Vec<MplPart>,
    /// Names of the paper's set-ups to measure, s01 to s17, separated by commas. `arrivals` has one of its own.
    #[arg(long, value_name = "SETUP,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Quick run: five set-ups (unless `--only` names others), shorter runs, and two of the controller's four starts.
    /// Without parts: the simulated ones, and `real`, in some ten minutes.
    #[arg(long)]
    quick: bool,
    /// Seed of the transactions.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Options of the part `soak`.
    #[command(flatten)]
    soak: soak::SoakOptions,
}

/// Part of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum MplPart {
    /// The 17 set-ups (Tables 1 and 2): C², the busy resource, the least MPL that keeps 80 and 95 % of the throughput,
    /// and the model's.
    Setups,
    /// Throughput against MPL (Figures 2 to 5), with the model's.
    Figures,
    /// Mean response time against MPL with arrivals from outside (section 3.2), with the model's.
    Arrivals,
    /// Important transactions first, behind limits that cost 0, 5 and 20 % of the throughput (Figure 11).
    Priorities,
    /// Controller from four starts: the limit at which it ends, and after how many observations; and whether it follows
    /// another load.
    Controller,
    /// On a real PostgreSQL 15: pgbench's TPC-B by 100 clients without a limit, behind PgBouncer and behind the gate.
    Tpcb,
    /// On a real PostgreSQL 15: set-ups bound by processors and by locks, their curves, and the controller by pairs of phases.
    Real,
    /// The set-ups of `real` on Overtake's engine: the gate before its workers.
    Engine,
    /// On a real PostgreSQL 15: important transactions first outside the server and inside it (Figures 12 and 13).
    Internal,
    /// On a real PostgreSQL 15: time that the gate and PgBouncer add to a statement.
    Cost,
    /// On a real PostgreSQL 15 and a host that others load: phases behind the gate and without a limit, in turn, for an hour.
    Soak,
}

/// Set-ups of a quick run: one of each bottleneck, and both ends of C².
const QUICK: [&str; 5] = ["s01", "s03", "s06", "s13", "s15"];

/// Measures and reports.
///
/// # Errors
/// A [`Refusal`] if there is no such set-up, or the run is stopped.
pub fn run(arguments: &MplArguments, stop: &Stop) -> anyhow::Result<Report> {
    let (setups, lengths) = (chosen(arguments)?, if arguments.quick { Lengths::QUICK } else { Lengths::FULL });
    let lab = Lab::new(setups, lengths, arguments.seed, stop);
    let (length, rounds) = if arguments.quick { (Duration::from_secs(3), 2) } else { (Duration::from_secs(5), 5) };
    let mut report = Report::new("mpl", arguments, Machine::read())?;
    for part in MplPart::value_variants() {
        let is_wanted = match (&arguments.parts[..], arguments.quick) {
            ([], true) => {
                !matches!(part, MplPart::Tpcb | MplPart::Engine | MplPart::Internal | MplPart::Cost | MplPart::Soak)
            }
            ([], false) => *part != MplPart::Soak,
            (parts, _) => parts.contains(part),
        };
        if !is_wanted {
            continue;
        }
        match part {
            MplPart::Setups => setups::measure(&lab, &mut report)?,
            MplPart::Figures => figures::measure(&lab, &mut report)?,
            MplPart::Arrivals => arrivals::measure(&lab, &mut report)?,
            MplPart::Priorities => priorities::measure(&lab, &mut report)?,
            MplPart::Controller => controller::measure(&lab, &mut report)?,
            MplPart::Tpcb => fronts::tpcb::measure(&mut report, length, rounds, stop)?,
            MplPart::Real | MplPart::Engine => {
                let database = if *part == MplPart::Real { DatabaseKind::Postgres } else { DatabaseKind::Engine };
                let phase = if arguments.quick { Duration::from_secs(2) } else { Duration::from_secs(4) };
                let extent = Extent { phase, only: &arguments.only, is_quick: arguments.quick };
                fronts::real::measure(&mut report, database, extent, stop)?;
            }
            MplPart::Internal => fronts::internal::measure(&mut report, length, rounds, stop)?,
            MplPart::Cost => fronts::cost::measure(&mut report, length, rounds, stop)?,
            MplPart::Soak => soak::measure(&mut report, &arguments.soak, arguments.seed, stop)?,
        }
    }
    report.note("What is simulated runs on virtual time: the same arguments give the same figures on any machine.");
    Ok(report)
}

fn chosen(arguments: &MplArguments) -> Result<Vec<Setup>, Refusal> {
    let mut setups = Setup::all();
    let is_known =
        |name: &String| setups.iter().any(|setup| setup.name == *name) || fronts::real::names().any(|own| own == *name);
    if let Some(unknown) = arguments.only.iter().find(|name| !is_known(name)) {
        let message = format!("there is no set-up \"{unknown}\"; there are s01 to s{:02}", setups.len());
        return Err(Refusal::new(message));
    }
    if !arguments.only.is_empty() {
        setups.retain(|setup| arguments.only.contains(&setup.name));
    } else if arguments.quick {
        setups.retain(|setup| QUICK.contains(&setup.name.as_str()));
    }
    Ok(setups)
}

/// Formats a share in percent; a share too small to tell from nothing is shown as nothing.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    number(if percent.abs() < 0.05 { 0.0 } else { percent })
}

/// Returns the place of a set-up on a chart's axis: `s07` is 7.
fn place(setup: &Setup) -> usize {
    setup.name.trim_start_matches('s').parse().unwrap_or(0)
}
