//! Bars in groups: a few figures of a few things, side by side.

use super::{Area, FAINT, INK, LINES, TRANSPARENT, builder, ink, legend, plain};
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

/// Chart of figures in groups of bars, on a logarithmic axis.
pub struct BarChart {
    title: String,
    unit: &'static str,
    series: Vec<&'static str>,
    groups: Vec<(String, Vec<f64>)>,
}

impl BarChart {
    /// Creates a chart without groups, whose groups have a bar for each of `series`.
    pub fn new(title: impl Into<String>, unit: &'static str, series: &[&'static str]) -> BarChart {
        BarChart { title: title.into(), unit, series: series.to_vec(), groups: Vec::new() }
    }

    /// Adds a group. A value that is not above 0 has no bar.
    ///
    /// # Panics
    /// If the group has another number of values than there are series.
    pub fn group(&mut self, name: impl Into<String>, values: &[f64]) {
        assert_eq!(values.len(), self.series.len(), "a group has a value for each series");
        self.groups.push((name.into(), values.to_vec()));
    }

    pub(super) fn draw(&self, subtitle: &str, area: &Area<'_>) -> anyhow::Result<()> {
        let values = || self.groups.iter().flat_map(|(_, values)| values).copied().filter(|value| 0.0 < *value);
        let lowest = 10_f64.powf(values().fold(f64::INFINITY, f64::min).min(1e9).log10().floor());
        let highest = 10_f64.powf(values().fold(lowest, f64::max).log10().floor() + 1.0);
        let places = self.groups.len().max(1) as f64;
        let mut plot = builder(&self.title, subtitle, area)?
            .build_cartesian_2d(0.0..places, (lowest..highest).log_scale())
            .map_err(plain)?;
        plot.configure_mesh()
            .y_desc(self.unit)
            .disable_x_mesh()
            .x_labels(0)
            .y_label_formatter(&|value| crate::report::number(*value))
            .y_labels(8)
            .label_style(ink(13))
            .axis_style(INK)
            .bold_line_style(FAINT)
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(plain)?;
        let base = area.get_base_pixel();
        let label = |(x, y): (i32, i32), below: i32, text: String, size: i32| {
            area.draw(&Text::new(text, (x - base.0, y - base.1 + below), ink(size))).map_err(plain)
        };
        // A tenth of a group's place is left free on either side.
        let width = 0.8 / self.series.len().max(1) as f64;
        for (group, (name, values)) in self.groups.iter().enumerate() {
            for (at, (value, (colour, _))) in values.iter().zip(LINES.iter().cycle()).enumerate() {
                if *value <= 0.0 {
                    continue;
                }
                let left = group as f64 + 0.1 + width * at as f64;
                let corners = [(left, lowest), (left + 0.9 * width, *value)];
                plot.draw_series([Rectangle::new(corners, colour.filled())]).map_err(plain)?;
                label(plot.backend_coord(&(left, *value)), -16, crate::report::number(*value), 11)?;
            }
            label(plot.backend_coord(&(group as f64 + 0.1, lowest)), 10, name.clone(), 13)?;
        }
        legend(self.series.iter().copied(), area)
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::*;

    #[test]
    fn each_value_above_zero_has_a_bar_and_its_number() {
        let mut chart = BarChart::new("t", "µs", &["high", "low"]);
        chart.group("none", &[1_234.0, 17.0]);
        chart.group("pow", &[0.0, 99.0]);
        let svg = draw(&[chart.into()], "machine").expect("it can be drawn");
        for text in ["1,234", "17.0", "99.0", "none", "pow", "high", "low"] {
            assert!(svg.contains(&format!(">\n{text}\n<")), "{text}: {svg}");
        }
        // One bar per value, and the paper.
        assert_eq!(svg.matches("<rect").count(), 3 + 1);
    }
}
