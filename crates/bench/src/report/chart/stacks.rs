//! Stacked bars: the parts of a whole, one bar for each thing.

use super::{Area, FAINT, HEIGHT, LINES, WIDTH, ink, legend, plain};
use plotters::prelude::*;

/// Edges of the bars. Names are at their left, the legend at their right.
const LEFT: i32 = 250;
const RIGHT: i32 = WIDTH as i32 - 210;
const TOP: i32 = 72;
const BOTTOM: i32 = HEIGHT as i32 - 40;
/// Greatest height of a bar's place.
const PLACE_MAX: i32 = 28;
/// Bars that are longer than so many times the median one are cut: the others could not be seen beside them.
const CUT: f64 = 6.0;

/// Chart of horizontal bars made of parts, on a linear axis from 0.
pub struct StackChart {
    title: String,
    unit: &'static str,
    parts: Vec<&'static str>,
    bars: Vec<(String, Vec<f64>)>,
}

impl StackChart {
    /// Creates a chart without bars, whose bars are made of these parts, the leftmost first.
    pub fn new(title: impl Into<String>, unit: &'static str, parts: &[&'static str]) -> StackChart {
        StackChart { title: title.into(), unit, parts: parts.to_vec(), bars: Vec::new() }
    }

    /// Adds a bar. A part that is not above 0 is not drawn.
    ///
    /// # Panics
    /// If the bar has another number of values than there are parts.
    pub fn bar(&mut self, name: impl Into<String>, values: &[f64]) {
        assert_eq!(values.len(), self.parts.len(), "a bar has a value for each part");
        self.bars.push((name.into(), values.to_vec()));
    }

    /// Returns the value at the right edge.
    fn edge(&self) -> f64 {
        let wholes: Vec<f64> = self.bars.iter().map(|(_, values)| whole(values)).filter(|all| 0.0 < *all).collect();
        if wholes.is_empty() {
            return 1.0;
        }
        let cut = CUT * crate::report::median(&wholes);
        wholes.into_iter().filter(|all| *all <= cut).fold(0.0, f64::max)
    }

    pub(super) fn draw(&self, subtitle: &str, area: &Area<'_>) -> anyhow::Result<()> {
        let text =
            |place: (i32, i32), text: String, size: i32| area.draw(&Text::new(text, place, ink(size))).map_err(plain);
        text((24, 16), self.title.clone(), 20)?;
        text((24, 42), subtitle.to_owned(), 13)?;
        text((LEFT, BOTTOM + 12), self.unit.to_owned(), 13)?;
        area.draw(&PathElement::new(vec![(LEFT, TOP), (LEFT, BOTTOM)], FAINT.stroke_width(1))).map_err(plain)?;
        let height = ((BOTTOM - TOP) / self.bars.len().max(1) as i32).clamp(8, PLACE_MAX);
        let (edge, gap) = (self.edge(), (height / 8).max(1));
        for (at, (name, values)) in self.bars.iter().enumerate() {
            let (top, mut from) = (TOP + height * at as i32, 0.0);
            text((24, top + height / 2 - 6), name.clone(), 11)?;
            let x = |value: f64| LEFT + (f64::from(RIGHT - LEFT) * value.min(edge) / edge).round() as i32;
            for (value, (colour, _)) in values.iter().zip(LINES.iter().cycle()) {
                if 0.0 < *value && x(from) < x(from + value) {
                    let corners = [(x(from), top + gap), (x(from + value), top + height - gap)];
                    area.draw(&Rectangle::new(corners, colour.filled())).map_err(plain)?;
                }
                from += value.max(0.0);
            }
            let told = crate::report::number(from);
            let told = if edge < from { format!("{told} (cut)") } else { told };
            text((x(from) + 5, top + height / 2 - 6), told, 11)?;
        }
        legend(self.parts.iter().copied(), area)
    }
}

fn whole(values: &[f64]) -> f64 {
    values.iter().filter(|value| 0.0 < **value).sum()
}

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::*;

    #[test]
    fn parts_above_zero_stand_beside_each_other() {
        let mut chart = StackChart::new("t", "µs", &["read", "run", "write"]);
        chart.bar("stored, SQL", &[10.0, 0.0, 32.5]);
        chart.bar("none", &[0.0, 0.0, 0.0]);
        let svg = draw(&[chart.into()], "machine").expect("it can be drawn");
        for text in ["42.5", "stored, SQL", "none", "read", "run", "write"] {
            assert!(svg.contains(&format!(">\n{text}\n<")), "{text}: {svg}");
        }
        // One rectangle per part above 0, and the paper.
        assert_eq!(svg.matches("<rect").count(), 2 + 1);
    }

    #[test]
    fn a_bar_that_would_hide_the_others_is_cut() {
        let mut chart = StackChart::new("t", "µs", &["run", "write"]);
        for _ in 0..3 {
            chart.bar("usual", &[60.0, 40.0]);
        }
        chart.bar("slow", &[5_000.0, 1_000.0]);
        assert_eq!(chart.edge(), 100.0);
        let svg = draw(&[chart.into()], "machine").expect("it can be drawn");
        assert!(svg.contains("6,000 (cut)"), "{svg}");
        assert_eq!(StackChart::new("t", "µs", &["run"]).edge(), 1.0);
    }
}
