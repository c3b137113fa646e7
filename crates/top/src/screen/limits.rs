//! Table of limits: the model beside the observations.

use super::columns::{Column, table};
use super::format::{ms, rate};
use super::parts::heading;
use crate::look::MplRow;
use crate::watch::{GateWatch, LimitPoint};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// Length of the longest bar.
const BAR: f64 = 10.0;

/// Draws the limits around the one in force, as many as there is room for.
pub(super) fn render(watch: &GateWatch, mpl: &MplRow, frame: &mut Frame<'_>, area: Rect) {
    let block = heading("limits: the model beside what was seen");
    let limits: Vec<(u32, LimitPoint)> = watch.limits().into_iter().collect();
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
    let limits = &limits[first.min(limits.len())..];
    let number = |known: Option<(f64, f64)>, of: fn((f64, f64)) -> String| known.map_or_else(String::new, of);
    let bar = |known: &LimitPoint| {
        let throughput = known.model.or(known.seen).map_or(0.0, |(rate, _)| rate);
        "\u{2588}".repeat((throughput / most.max(1e-9) * BAR).round() as usize)
    };
    let is_present = |limit: u32| mpl.mpl == Some(limit);
    let column = |name, rank, value: &dyn Fn(&LimitPoint) -> String| {
        Column::new(name, rank, limits.iter().map(|(_, known)| value(known)))
    };
    let columns = vec![
        Column::new("", 1, limits.iter().map(|(limit, _)| if is_present(*limit) { ">" } else { " " }.to_owned())),
        Column::new("MPL", 0, limits.iter().map(|(limit, _)| limit.to_string())),
        column("model tx/s", 2, &|known| number(known.model, |(throughput, _)| rate(throughput))),
        column("seen tx/s", 3, &|known| number(known.seen, |(throughput, _)| rate(throughput))),
        column("model resp.", 4, &|known| number(known.model, |(_, response)| ms(response))),
        column("seen resp.", 5, &|known| number(known.seen, |(_, response)| ms(response))),
        column("", 6, &bar).left().styled(Style::new().green()),
    ];
    let present: Vec<bool> = limits.iter().map(|(limit, _)| is_present(*limit)).collect();
    frame.render_widget(table(columns, &present, area.width).block(block), area);
}
