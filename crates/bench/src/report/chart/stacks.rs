//! Stacked bars: the parts of a whole, one bar for each thing.

use super::{Area, FAINT, INK, LINES, TRANSPARENT, builder, ink, legend, plain};
use plotters::prelude::*;

/// Chart of bars made of parts, on a linear axis from 0.
pub struct StackChart {
    title: String,
    unit: &'static str,
    parts: Vec<&'static str>,
    bars: Vec<(String, Vec<f64>)>,
}

impl StackChart {
    /// Creates a chart without bars, whose bars are made of these parts, the lowest first.
    pub fn new(title: impl Into<String>, unit: &'static str, parts: &[&'static str]) -> StackChart {
        StackChart { title: title.into(), unit, parts: parts.to_vec(), bars: Vec::new() }
    }

    /// Adds a bar. A part that is not above 0 is not drawn. Lines of the name stand below each other.
    ///
    /// # Panics
    /// If the bar has another number of values than there are parts.
    pub fn bar(&mut self, name: impl Into<String>, values: &[f64]) {
        assert_eq!(values.len(), self.parts.len(), "a bar has a value for each part");
        self.bars.push((name.into(), values.to_vec()));
    }

    pub(super) fn draw(&self, subtitle: &str, area: &Area<'_>) -> anyhow::Result<()> {
        let whole = |values: &[f64]| values.iter().filter(|value| 0.0 < **value).sum::<f64>();
        let highest = self.bars.iter().map(|(_, values)| whole(values)).fold(0.0, f64::max);
        let places = self.bars.len().max(1) as f64;
        let top = if 0.0 < highest { 1.08 * highest } else { 1.0 };
        let mut plot =
            builder(&self.title, subtitle, area)?.build_cartesian_2d(0.0..places, 0.0..top).map_err(plain)?;
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
        for (at, (name, values)) in self.bars.iter().enumerate() {
            let (left, right, mut from) = (at as f64 + 0.12, at as f64 + 0.88, 0.0);
            for (value, (colour, _)) in values.iter().zip(LINES.iter().cycle()) {
                if *value <= 0.0 {
                    continue;
                }
                let corners = [(left, from), (right, from + value)];
                plot.draw_series([Rectangle::new(corners, colour.filled())]).map_err(plain)?;
                from += value;
            }
            label(plot.backend_coord(&(left, from)), -16, crate::report::number(from), 11)?;
            for (below, line) in name.lines().enumerate() {
                label(plot.backend_coord(&(left, 0.0)), 8 + 13 * below as i32, line.to_owned(), 11)?;
            }
        }
        legend(self.parts.iter().copied(), area)
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::*;

    #[test]
    fn parts_above_zero_stand_on_each_other() {
        let mut chart = StackChart::new("t", "µs", &["read", "run", "write"]);
        chart.bar("stored\nSQL", &[10.0, 0.0, 32.5]);
        chart.bar("none", &[0.0, 0.0, 0.0]);
        let svg = draw(&[chart.into()], "machine").expect("it can be drawn");
        for text in ["42.5", "stored", "SQL", "none", "read", "run", "write"] {
            assert!(svg.contains(&format!(">\n{text}\n<")), "{text}: {svg}");
        }
        // One rectangle per part above 0, and the paper.
        assert_eq!(svg.matches("<rect").count(), 2 + 1);
    }
}
