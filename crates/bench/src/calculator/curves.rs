//! Curves over the limits: their figures, their chart, and the least limits that are good enough.

use super::limits::MplRange;
use crate::report::{LineChart, Report, TextTable, number};
use gate::model::ModelError;
use host::refusal::Refusal;

/// Maximum number of curves: as many as one can tell apart, and as a chart has room to name.
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

/// Line of a chart.
pub struct Curve {
    /// Part of the names of the curve's figures; used when there are several curves.
    pub name: String,
    /// Name in tables and charts.
    pub label: String,
    /// Points of the curve: (limit, value).
    pub points: Vec<(usize, f64)>,
    /// Least limit that meets each threshold of the curve's [`Subject`].
    pub least: Vec<Result<usize, ModelError>>,
}

/// Subject of a set of curves.
pub struct Subject {
    /// First part of the names of a single curve's figures.
    pub figure: &'static str,
    /// Title of the table of values and of the chart.
    pub title: &'static str,
    /// Unit of the chart's values.
    pub unit: &'static str,
    /// Title of the table of least limits.
    pub least: &'static str,
    /// Thresholds of the least limits: the last part of a figure's name, the head of a column.
    pub thresholds: [(&'static str, &'static str); 4],
}

impl Subject {
    /// Adds the figures, the table of least limits and the chart; and, of several curves, a table of values.
    pub fn report(&self, curves: &[Curve], limits: MplRange, report: &mut Report) {
        let one = curves.len() == 1;
        let head: Vec<&str> = [""].into_iter().chain(self.thresholds.map(|(_, head)| head)).collect();
        let mut table = TextTable::new(self.least, &head);
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

    fn values(&self, curves: &[Curve], limits: MplRange) -> TextTable {
        let head: Vec<&str> = ["MPL"].into_iter().chain(curves.iter().map(|curve| curve.label.as_str())).collect();
        let mut table = TextTable::new(self.title, &head);
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

fn in_words(least: &Result<usize, ModelError>) -> String {
    match least {
        Ok(mpl) => mpl.to_string(),
        Err(ModelError::OutOfReach { mpl_max }) => format!("> {mpl_max}"),
        Err(_) => "-".to_owned(),
    }
}
