//! Stages of statements: for each class a bar of the parts of its time, and the parts in words.

use super::columns::joined;
use super::parts::heading;
use crate::look::{Look, StageRow, in_words};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Width of a bar.
const BAR: usize = 30;
/// Width of the name of a class.
const NAME: usize = 8;

/// Returns the height that the part takes: nothing without stages.
pub(super) fn height(look: &Look) -> u16 {
    match look.shares().len() {
        0 => 0,
        count => u16::try_from(count + 1).unwrap_or(u16::MAX),
    }
}

/// Draws the stages of each class.
pub(super) fn render(look: &Look, frame: &mut Frame<'_>, area: Rect) {
    if area.height == 0 {
        return;
    }
    let width = area.width.saturating_sub((NAME + BAR + 2) as u16);
    let line = |(class, shares): (&str, Vec<(&StageRow, f64)>)| {
        let words = in_words(&shares).into_iter().enumerate().collect();
        let mut spans = vec![Span::from(format!("{class:<NAME$}"))];
        spans.extend(bar(&shares));
        spans.push(Span::from(format!("  {}", joined(words, ", ", width))));
        Line::from(spans)
    };
    let lines: Vec<Line<'_>> = look.shares().into_iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(heading("where the time of statements goes")), area);
}

/// Returns the parts of a bar. Waits are light, so they differ from work without a colour, too.
fn bar(shares: &[(&StageRow, f64)]) -> Vec<Span<'static>> {
    let (mut passed, mut drawn, mut spans) = (0.0, 0, Vec::new());
    for (row, share) in shares {
        passed += share;
        let end = ((passed * BAR as f64).round() as usize).min(BAR);
        let (symbol, color) = match (row.is_waiting, row.stage.starts_with("network_")) {
            (true, _) => ("\u{2591}", Color::Yellow),
            (false, true) => ("\u{2593}", Color::Cyan),
            (false, false) => ("\u{2588}", if row.stage == "run" { Color::Green } else { Color::Gray }),
        };
        spans.push(Span::styled(symbol.repeat(end.saturating_sub(drawn)), Style::new().fg(color)));
        drawn = drawn.max(end);
    }
    spans.push(Span::from(" ".repeat(BAR.saturating_sub(drawn))));
    spans
}
