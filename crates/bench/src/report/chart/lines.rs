//! Lines: figures over a whole number, such as a limit.

use super::{Area, FAINT, INK, LINES, TRANSPARENT, builder, ink, legend, plain};
use plotters::prelude::*;

/// Chart of figures over a whole number, on plain axes; that of the figures begins at 0.
pub struct LineChart {
    title: String,
    number: &'static str,
    unit: &'static str,
    series: Vec<(String, Vec<(usize, f64)>)>,
}

impl LineChart {
    /// Creates a chart without lines, over the quantity that `number` names.
    pub fn new(title: impl Into<String>, number: &'static str, unit: &'static str) -> LineChart {
        LineChart { title: title.into(), number, unit, series: Vec::new() }
    }

    /// Adds a line.
    pub fn series(&mut self, name: impl Into<String>, points: &[(usize, f64)]) {
        self.series.push((name.into(), points.to_vec()));
    }

    pub(super) fn draw(&self, subtitle: &str, area: &Area<'_>) -> anyhow::Result<()> {
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let first = points().map(|(number, _)| *number).min().unwrap_or(0);
        let last = points().map(|(number, _)| *number).max().unwrap_or(0).max(first + 1);
        let highest = points().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
        let mut plot = builder(&self.title, subtitle, area)?
            .build_cartesian_2d(first as f64..last as f64, 0.0..1.05 * highest)
            .map_err(plain)?;
        plot.configure_mesh()
            .x_desc(self.number)
            .y_desc(self.unit)
            .x_label_formatter(&|number| format!("{number}"))
            .y_label_formatter(&|value| crate::report::number(*value))
            .x_labels(12)
            .y_labels(8)
            .label_style(ink(13))
            .axis_style(INK)
            .bold_line_style(FAINT)
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(plain)?;
        for ((_, points), (colour, _)) in self.series.iter().zip(LINES.iter().cycle()) {
            let points = points.iter().map(|(number, value)| (*number as f64, *value));
            plot.draw_series(LineSeries::new(points, colour.stroke_width(2))).map_err(plain)?;
        }
        legend(self.series.iter().map(|(name, _)| name.as_str()), area)
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::*;

    #[test]
    fn each_series_has_a_line_and_its_name() {
        let mut chart = LineChart::new("t", "MPL", "share");
        chart.series("one disk", &[(1, 1.0), (2, 1.0)]);
        chart.series("two disks", &[(1, 0.5), (2, 2.0 / 3.0)]);
        let svg = draw(&[chart.into()], "calculated").expect("it can be drawn");
        for text in ["one disk", "two disks", "MPL", "share"] {
            assert!(svg.contains(&format!(">\n{text}\n<")), "{text}: {svg}");
        }
        for colour in ["#0072B2", "#D55E00"] {
            assert!(svg.contains(&format!("stroke=\"{colour}\" stroke-width=\"2\"")), "{colour}: {svg}");
        }
    }

    #[test]
    fn a_single_point_can_be_drawn() {
        let mut chart = LineChart::new("t", "MPL", "share");
        chart.series("alone", &[(7, 0.5)]);
        assert!(draw(&[chart.into()], "calculated").expect("it can be drawn").contains("alone"));
    }
}
