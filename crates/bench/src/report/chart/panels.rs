//! Panels side by side: a few measures of the same things, each with a scale of its own.

use super::{Area, FAINT, HEIGHT, LINES, WIDTH, ink, plain};
use plotters::prelude::*;

/// Place of the first panel, of the first row, and of the lower edge.
const LEFT: i32 = 150;
const TOP: i32 = 100;
const BOTTOM: i32 = HEIGHT as i32 - 24;
/// Room at the right of a panel: for the number of its longest bar.
const NUMBER: i32 = 62;
/// Length of the shortest bar on a logarithmic scale.
const SHORTEST: f64 = 0.08;

/// Chart of horizontal bars: a row for each thing, a panel for each measure.
pub struct PanelChart {
    title: String,
    panels: Vec<(&'static str, bool)>,
    rows: Vec<(String, Vec<PanelValue>)>,
}

/// Value with its text; none if the thing does not have the measure.
pub type PanelValue = Option<(f64, String)>;

impl PanelChart {
    /// Creates a chart without panels.
    pub fn new(title: impl Into<String>) -> PanelChart {
        PanelChart { title: title.into(), panels: Vec::new(), rows: Vec::new() }
    }

    /// Adds a panel, before any row.
    pub fn panel(&mut self, name: &'static str, is_logarithmic: bool) {
        self.panels.push((name, is_logarithmic));
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has another number of values than there are panels.
    pub fn row(&mut self, name: impl Into<String>, values: impl IntoIterator<Item = PanelValue>) {
        let values: Vec<PanelValue> = values.into_iter().collect();
        assert_eq!(values.len(), self.panels.len(), "a row has a value for each panel");
        self.rows.push((name.into(), values));
    }

    pub(super) fn draw(&self, subtitle: &str, area: &Area<'_>) -> anyhow::Result<()> {
        let text =
            |place: (i32, i32), text: String, size: i32| area.draw(&Text::new(text, place, ink(size))).map_err(plain);
        text((24, 16), self.title.clone(), 20)?;
        text((24, 42), subtitle.to_owned(), 13)?;
        let width = (WIDTH as i32 - LEFT - 16) / self.panels.len().max(1) as i32;
        let height = (BOTTOM - TOP) / self.rows.len().max(1) as i32;
        for (at, (name, _)) in self.rows.iter().enumerate() {
            text((24, TOP + height * at as i32 + height / 2 - 7), name.clone(), 13)?;
        }
        for (panel, ((name, is_logarithmic), (colour, _))) in self.panels.iter().zip(LINES.iter().cycle()).enumerate() {
            let left = LEFT + width * panel as i32;
            text((left, TOP - 26), (*name).to_owned(), 12)?;
            area.draw(&PathElement::new(vec![(left, TOP - 4), (left, BOTTOM)], FAINT.stroke_width(1)))
                .map_err(plain)?;
            let column: Vec<&PanelValue> = self.rows.iter().filter_map(|(_, values)| values.get(panel)).collect();
            let lengths = lengths(&column, *is_logarithmic);
            for (at, (value, length)) in column.into_iter().zip(lengths).enumerate() {
                let top = TOP + height * at as i32;
                let right = left + (f64::from(width - NUMBER) * length).round() as i32;
                if left < right {
                    let corners = [(left, top + 5), (right, top + height - 5)];
                    area.draw(&Rectangle::new(corners, colour.filled())).map_err(plain)?;
                }
                let told = value.as_ref().map_or("–", |(_, told)| told.as_str());
                text((right + 5, top + height / 2 - 6), told.to_owned(), 12)?;
            }
        }
        Ok(())
    }
}

/// Returns the lengths of bars, the longest as 1.
fn lengths(values: &[&PanelValue], is_logarithmic: bool) -> Vec<f64> {
    let known = || values.iter().filter_map(|value| Some(value.as_ref()?.0)).filter(|value| 0.0 < *value);
    let highest = known().fold(0.0, f64::max);
    let lowest = known().fold(highest, f64::min);
    let length = |value: f64| match is_logarithmic {
        _ if value <= 0.0 => 0.0,
        true if lowest < highest => SHORTEST + (1.0 - SHORTEST) * (value / lowest).ln() / (highest / lowest).ln(),
        _ => value / highest,
    };
    values.iter().map(|value| value.as_ref().map_or(0.0, |(value, _)| length(*value))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::*;

    #[test]
    fn bars_are_as_long_as_values() {
        let value = |value: f64| Some((value, String::new()));
        let (ten, hundred, thousand, none) = (value(10.0), value(100.0), value(1_000.0), None);
        let middle = (1.0 + SHORTEST) / 2.0;
        let cases: [(&[&PanelValue], bool, &[f64]); 4] = [
            (&[&ten, &hundred, &none], false, &[0.1, 1.0, 0.0]),
            (&[&ten, &thousand, &value(0.0)], true, &[SHORTEST, 1.0, 0.0]),
            (&[&ten, &hundred, &thousand], true, &[SHORTEST, middle, 1.0]),
            (&[&ten], true, &[1.0]),
        ];
        for (values, is_logarithmic, expected) in cases {
            let found = lengths(values, is_logarithmic);
            let are_close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9);
            assert!(found.len() == expected.len() && are_close, "{found:?} are not {expected:?}");
        }
    }

    #[test]
    fn each_value_has_its_text_and_a_bar() {
        let mut chart = PanelChart::new("t");
        chart.panel("cost", true);
        chart.panel("lines", false);
        chart.row("native", [Some((32.0, "32.0".to_owned())), None]);
        chart.row("wasm", [Some((64.0, "64.0".to_owned())), Some((120.0, "120 lines".to_owned()))]);
        let svg = draw(&[chart.into()], "machine").expect("it can be drawn");
        for text in ["cost", "lines", "native", "wasm", "32.0", "64.0", "120 lines", "–"] {
            assert!(svg.contains(&format!(">\n{text}\n<")), "{text}: {svg}");
        }
        // One bar for each value, and the paper.
        assert_eq!(svg.matches("<rect").count(), 3 + 1);
    }
}
