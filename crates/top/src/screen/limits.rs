//! The model beside what was observed.

use super::format::{ms, rate};
use super::parts::heading;
use crate::look::Mpl;
use crate::watch::{Limit, Watch};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Stylize;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

/// Around the limit in force, as far as there is room.
pub(super) fn render(watch: &Watch, mpl: &Mpl, frame: &mut Frame<'_>, area: Rect) {
    let block = heading("limits: the model beside what was seen");
    let limits: Vec<(u32, Limit)> = watch.limits().into_iter().collect();
    if limits.is_empty() {
        let told = Line::from("Too little was seen yet.").dim();
        return frame.render_widget(Paragraph::new(told).block(block), area);
    }
    let room = usize::from(area.height.saturating_sub(2));
    let present = mpl.mpl.unwrap_or(mpl.slots);
    let at = limits.iter().position(|(limit, _)| present <= *limit).unwrap_or(limits.len());
    let first = at.saturating_sub(room / 2).min(limits.len().saturating_sub(room));
    let most =
        limits.iter().filter_map(|(_, limit)| limit.model.or(limit.seen)).map(|(rate, _)| rate).fold(0.0, f64::max);
    let row = |(limit, known): &(u32, Limit)| {
        let right = |text: String| Cell::from(Text::from(text).right_aligned());
        let number = |known: Option<(f64, f64)>, of: fn((f64, f64)) -> String| known.map_or_else(String::new, of);
        let throughput = known.model.or(known.seen).map_or(0.0, |(rate, _)| rate);
        let bar = "\u{2588}".repeat((throughput / most.max(1e-9) * 10.0).round() as usize);
        let is_present = mpl.mpl == Some(*limit);
        let row = Row::new([
            Cell::from(if is_present { ">" } else { " " }),
            right(limit.to_string()),
            right(number(known.model, |(throughput, _)| rate(throughput))),
            right(number(known.seen, |(throughput, _)| rate(throughput))),
            right(number(known.model, |(_, response)| ms(response))),
            right(number(known.seen, |(_, response)| ms(response))),
            Cell::from(bar).green(),
        ]);
        if is_present { row.bold() } else { row }
    };
    let right = |text: &'static str| Cell::from(Text::from(text).right_aligned());
    let head = ["MPL", "model tx/s", "seen", "response", "seen"].map(right);
    let head = Row::new(std::iter::once(Cell::from("")).chain(head)).dim();
    let widths = [1, 4, 10, 9, 9, 9, 10].map(Constraint::Length);
    frame.render_widget(Table::new(limits[first..].iter().map(row), widths).header(head).block(block), area);
}
