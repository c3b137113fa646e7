//! `bench mpl controller`: whether the controller finds the lowest limit that keeps its thresholds (section 4.3), from
//! any start, and in how many observations; and whether it follows when the load changes.
//!
//! The limit that it should find is known from long runs under fixed limits, of which it knows nothing. In a closed
//! system whose clients do not think the mean response is clients over throughput (Little's law), so that one curve
//! judges both thresholds.

mod tables;

use super::lab::{CLIENTS, Lab};
use crate::report::Report;
use gate::control::{ControlSettings, Controller, Goal, Move, Phase};
use gate::sim::{Setup, Simulation};
use host::stop::Stopped;
use std::time::Duration;

/// Permitted loss of the best throughput, and permitted increase of the best mean response.
const THRESHOLD: f64 = 0.05;
/// Share of the best throughput that keeps both thresholds: the response grows by the inverse.
const KEEP: f64 = 1.0 / (1.0 + THRESHOLD);
/// Number of observations in which the controller must find the limit.
const OBSERVATIONS_MAX: u64 = 10;
/// Number of observations after which the controller is given up.
const GIVEN_UP: u64 = 20;
/// Number of completions between two looks of the controller.
const LOOK: u64 = 200;
/// Maximum length of an observation, on virtual time: when C² is 15, one needs millions of transactions.
const OBSERVATION_MAX: Duration = Duration::from_secs(20_000);

/// Result of one run of the controller.
struct ControllerResult {
    start: u32,
    chosen: u32,
    observations: u64,
    loss: f64,
    increase: f64,
    loss_vs_unlimited: f64,
    moves: Vec<Move>,
}

impl ControllerResult {
    /// Returns true if the run met all its demands. The limit may be a quarter, or 2, above the lowest.
    fn is_kept(&self, lowest: u32) -> bool {
        let most = (1.25 * f64::from(lowest)).max(f64::from(lowest + 2));
        self.loss <= THRESHOLD
            && self.increase <= THRESHOLD
            && self.observations <= OBSERVATIONS_MAX
            && f64::from(self.chosen) <= most
    }
}

/// Run to be done.
enum Task<'a> {
    From(&'a Setup, u32),
    Switch(&'a Setup, Setup),
}

/// Runs the controller on each set-up from each start, and on the first one when its load changes.
pub(super) fn measure(lab: &Lab<'_>, report: &mut Report) -> anyhow::Result<()> {
    let lowest = lab.each("lowest limits", &lab.setups, |setup| lab.least(setup, KEEP))?;
    let (all, starts) = (&lab.setups, lab.lengths.starts);
    let mut tasks: Vec<Task<'_>> =
        all.iter().flat_map(|setup| starts.iter().map(|start| Task::From(setup, *start))).collect();
    let switched = all.iter().find(|setup| setup.name == "s01").map(|setup| Task::Switch(setup, other_load(setup)));
    let switches = switched.is_some();
    tasks.extend(switched);
    let mut found = lab.each("the controller", &tasks, |task| match task {
        Task::From(setup, start) => search(lab, setup, *start),
        Task::Switch(setup, other) => follow(lab, setup, other),
    })?;
    if switches
        && let Some(switch) = found.pop()
        && let Some(Task::Switch(_, other)) = tasks.last()
    {
        tables::switch(&switch, lab.least(other, KEEP)?, report);
    }
    let by_setup: Vec<(&Setup, u32, &[ControllerResult])> = all
        .iter()
        .zip(lowest)
        .zip(found.chunks(starts.len()))
        .map(|((setup, low), found)| (setup, low, found))
        .collect();
    tables::starts(&by_setup, report);
    Ok(())
}

/// Returns the same machine with half of the work on its disk, and sizes of a C² of 15: a load that needs a higher
/// limit.
fn other_load(setup: &Setup) -> Setup {
    let mut workload = setup.workload.clone();
    (workload.processor, workload.disk, workload.c2) = (0.015, 0.015, 15.0);
    Setup { name: "switched".to_owned(), workload, ..setup.clone() }
}

fn controller() -> Controller {
    Controller::new(ControlSettings {
        goal: Goal::Lowest { loss_max: THRESHOLD, increase_max: THRESHOLD },
        mpl_max: CLIENTS,
        observation_max: OBSERVATION_MAX,
        ..ControlSettings::default()
    })
}

/// Runs until the controller is in this phase, or has taken too long.
fn until(lab: &Lab<'_>, phase: Phase, controller: &mut Controller, simulation: &mut Simulation) -> Result<(), Stopped> {
    let most = controller.observations() + GIVEN_UP;
    while controller.phase() != phase && controller.observations() < most {
        lab.run(simulation, LOOK)?;
        let now = simulation.now();
        controller.look(now, simulation.gate_mut());
    }
    Ok(())
}

fn search(lab: &Lab<'_>, setup: &Setup, start: u32) -> Result<ControllerResult, Stopped> {
    // The transactions differ from those by which the controller is judged.
    let mut simulation = lab.closed(setup, start, lab.seed + 1_000 + u64::from(start));
    let mut controller = controller();
    until(lab, Phase::Holding, &mut controller, &mut simulation)?;
    judge(lab, setup, start, &controller, &simulation, 0)
}

fn follow(lab: &Lab<'_>, setup: &Setup, other: &Setup) -> Result<ControllerResult, Stopped> {
    let start = 20;
    let mut simulation = lab.closed(setup, start, lab.seed + 2_000);
    let mut controller = controller();
    until(lab, Phase::Holding, &mut controller, &mut simulation)?;
    let before = controller.observations();
    simulation.switch(&other.workload);
    until(lab, Phase::Searching, &mut controller, &mut simulation)?;
    until(lab, Phase::Holding, &mut controller, &mut simulation)?;
    judge(lab, other, start, &controller, &simulation, before)
}

/// Judges the controller's work after this number of observations.
fn judge(
    lab: &Lab<'_>,
    setup: &Setup,
    start: u32,
    controller: &Controller,
    simulation: &Simulation,
    before: u64,
) -> Result<ControllerResult, Stopped> {
    let chosen = simulation.gate().mpl();
    let ((_, best), there) = (lab.best(setup)?, lab.throughput(setup, chosen)?);
    Ok(ControllerResult {
        start,
        chosen,
        observations: controller.observations() - before,
        // A limit between those that are known may be the best.
        loss: (1.0 - there / best).max(0.0),
        increase: (best / there - 1.0).max(0.0),
        loss_vs_unlimited: 1.0 - there / lab.throughput(setup, CLIENTS)?,
        moves: controller.moves().copied().collect(),
    })
}
