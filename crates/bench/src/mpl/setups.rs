//! `bench mpl setups`: the bottlenecks of the paper's 17 set-ups, and the least limits that they need.

use super::lab::{CLIENTS, Lab};
use super::{percent, place};
use crate::report::{LineChart, Report, TextTable, number};
use gate::sim::Setup;
use host::stop::Stopped;

/// Shares of the best throughput, as figures and columns name them.
const KEEP: [(&str, f64); 2] = [("mpl80", 0.8), ("mpl95", 0.95)];
/// Limit at which C² is measured: small enough that it can be told from outside, and large enough that the set-up is
/// busy.
const C2_MPL: u32 = 10;

struct SetupResult {
    c2: f64,
    processor_busy: f64,
    disk_busy: f64,
    best: (u32, f64),
    unlimited_loss: f64,
    least: [u32; 2],
    model: [usize; 2],
}

/// Measures each set-up.
pub(super) fn measure(lab: &Lab<'_>, report: &mut Report) -> anyhow::Result<()> {
    let found = lab.each("set-ups", &lab.setups, |setup| find(lab, setup))?;
    let head =
        ["", "C²", "bound by", "CPU %", "disk %", "per s", "best MPL", "no limit −%", "80 %", "model", "95 %", "model"];
    let title = format!(
        "Set-ups with {CLIENTS} clients: busy with all of them inside, and the least MPL that keeps 80 and 95 % of the best"
    );
    let mut table = TextTable::new(title, &head);
    let mut chart = LineChart::new("The least MPL that keeps 80 and 95 % of the best throughput", "set-up", "MPL");
    let mut lines: [Vec<(usize, f64)>; 4] = Default::default();
    for (setup, found) in lab.setups.iter().zip(&found) {
        let name = &setup.name;
        let hardware = format!("{name} {}, {} CPU, {} disk", setup.description, setup.processors, setup.disks);
        let SetupResult { least, model, .. } = found;
        table.row([
            hardware,
            number(found.c2),
            setup.bottleneck.to_string(),
            percent(found.processor_busy),
            percent(found.disk_busy),
            number(found.best.1),
            found.best.0.to_string(),
            percent(found.unlimited_loss),
            least[0].to_string(),
            model[0].to_string(),
            least[1].to_string(),
            model[1].to_string(),
        ]);
        report.figure(format!("{name}.c2"), found.c2);
        report.figure(format!("{name}.processor_busy"), found.processor_busy);
        report.figure(format!("{name}.disk_busy"), found.disk_busy);
        report.figure(format!("{name}.mpl_best"), found.best.0.into());
        report.figure(format!("{name}.throughput_best"), found.best.1);
        report.figure(format!("{name}.unlimited_loss"), found.unlimited_loss);
        // The lines are in pairs: the measured limit, then the model's.
        for (at, (threshold, _)) in KEEP.iter().enumerate() {
            report.figure(format!("{name}.{threshold}"), least[at].into());
            report.figure(format!("{name}.model.{threshold}"), model[at] as f64);
            lines[2 * at].push((place(setup), least[at].into()));
            lines[2 * at + 1].push((place(setup), model[at] as f64));
        }
    }
    for (name, line) in ["80 %", "80 %, model", "95 %", "95 %, model"].into_iter().zip(lines) {
        chart.series(name, &line);
    }
    report.table(table);
    report.chart(chart);
    report.note(
        "The model is a closed network of the set-up's processors and disks, without locks; \"bound by\" is what the set-up is \
         made for, C² what the gate tells from outside.",
    );
    Ok(())
}

fn find(lab: &Lab<'_>, setup: &Setup) -> Result<SetupResult, Stopped> {
    let best = lab.best(setup)?;
    let mut some_inside = lab.closed(setup, C2_MPL, lab.seed);
    let c2 = lab.observe(&mut some_inside, lab.lengths.throughput)?.demand.c2();
    let mut all_inside = lab.closed(setup, CLIENTS, lab.seed);
    lab.run(&mut all_inside, lab.lengths.throughput)?;
    let (processor_busy, disks) = all_inside.utilisation();
    let mut least = [0; 2];
    for (least, (_, keep)) in least.iter_mut().zip(KEEP) {
        *least = lab.least(setup, keep)?;
    }
    Ok(SetupResult {
        c2,
        processor_busy,
        disk_busy: disks.iter().sum::<f64>() / disks.len().max(1) as f64,
        best,
        unlimited_loss: 1.0 - lab.throughput(setup, CLIENTS)? / best.1,
        least,
        model: KEEP.map(|(_, keep)| {
            setup.network().least_mpl_of(CLIENTS as usize, keep).expect("all clients keep any share of what they do")
        }),
    })
}
