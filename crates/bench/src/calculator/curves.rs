//! Curves over the limits, whatever they show: their figures, their chart, and the least limits that are good enough.

use super::limits::Limits;
use crate::report::{LineChart, Report, Table, number};
use gate::model::Error;
use host::refusal::Refusal;

/// As many as one can tell apart, and as a chart has room to name.
const CURVES_MAX: usize = 16;

/// Refuses more curves than a chart can show.
pub fn check_count(count: usize) -> Result<(), Refusal> {
    if CURVES_MAX < count {
        return Err(Refusal::new(format!(
            "{count} curves are too many for one chart, which has room for {CURVES_MAX}"
        )));
    }
    Ok(())
}

/// One line of a chart.
pub struct Curve {
    /// Part of its figures' names; used when there are several curves.
    pub name: String,
    /// What people call it.
    pub label: String,
    /// (limit, value)
    pub points: Vec<(usize, f64)>,
    /// The least limit that meets each threshold of its [`Subject`].
    pub least: Vec<Result<usize, Error>>,
}

/// What curves are about.
pub struct Subject {
    /// The first part of a single curve's figures' names.
    pub figure: &'static str,
    /// Above the table of values and the chart.
    pub title: &'static str,
    /// Beside the chart.
    pub unit: &'static str,
    /// Above the table of least limits.
    pub least: &'static str,
    /// What the least limits have to meet: the last part of a figure's name, the head of a column.
    pub thresholds: [(&'static str, &'static str); 4],
}

impl Subject {
    /// Adds the figures, the table of least limits and the chart; and, of several curves, a table of values.
    pub fn report(&self, curves: &[Curve], limits: Limits, report: &mut Report) {
        let one = curves.len() == 1;
        let head: Vec<&str> = [""].into_iter().chain(self.thresholds.map(|(_, head)| head)).collect();
        let mut table = Table::new(self.least, &head);
        let mut chart = LineChart::new(self.title, "MPL", self.unit);
        for curve in curves {
            let prefix = if one { String::new() } else { format!("{}.", curve.name) };
            for (limit, value) in &curve.points {
                report.figure(format!("{prefix}{}.{limit}", self.figure), *value);
            }
            for ((figure, _), least) in self.thresholds.iter().zip(&curve.least) {
                if let Ok(least) = least {
                    report.figure(format!("{prefix}least_mpl.{figure}"), *least as f64);
                }
            }
            table.row([curve.label.clone()].into_iter().chain(curve.least.iter().map(in_words)));
            chart.series(curve.label.clone(), &curve.points);
        }
        if !one {
            report.table(self.values(curves, limits));
        }
        report.table(table);
        report.chart(chart);
    }

    fn values(&self, curves: &[Curve], limits: Limits) -> Table {
        let head: Vec<&str> = ["MPL"].into_iter().chain(curves.iter().map(|curve| curve.label.as_str())).collect();
        let mut table = Table::new(self.title, &head);
        for limit in limits.all().filter(|limit| limits.shows(*limit)) {
            let value = |curve: &Curve| {
                let point = curve.points.iter().find(|(at, _)| *at == limit);
                point.map_or_else(|| "-".to_owned(), |(_, value)| number(*value))
            };
            table.row([limit.to_string()].into_iter().chain(curves.iter().map(value)));
        }
        table
    }
}

fn in_words(least: &Result<usize, Error>) -> String {
    match least {
        Ok(mpl) => mpl.to_string(),
        Err(Error::OutOfReach { mpl_max }) => format!("> {mpl_max}"),
        Err(_) => "-".to_owned(),
    }
}
