//! Parts of the screen: the gate in two lines, the past minutes, the classes, the moves.

use super::columns::{Column, joined, table};
use super::format::{ago, ms, rate};
use crate::look::{ClassRow, HistoryRow, MoveRow, MplRow};
use crate::watch::GateWatch;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};

/// Length of the history that the sparklines show, in seconds.
const PAST_S: f64 = 300.0;
/// Width of a line's maximum: "  max 9,999,999".
const MOST: u16 = 15;

pub(super) fn heading(text: impl Into<String>) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(Style::new().dim())
        .title(Span::from(format!(" {} ", text.into())).bold())
}

/// Returns the number of lines that a text takes when it is wrapped between words.
pub(super) fn lines_of(text: &str, width: u16) -> u16 {
    let (mut lines, mut at) = (0, usize::MAX);
    for length in text.split_whitespace().map(|word| word.chars().count()) {
        let end = at.saturating_add(1 + length);
        (lines, at) = if usize::from(width) < end { (lines + 1, length) } else { (lines, end) };
    }
    lines
}

/// Returns the two lines about the limit and the present load, of as many parts as fit.
pub(super) fn summary(watch: &GateWatch, mpl: &MplRow, width: u16) -> Text<'static> {
    let limit = mpl.mpl.map_or_else(|| "none (observing)".to_owned(), |limit| limit.to_string());
    let phase = mpl.phase.as_ref().map_or_else(|| mpl.mode.clone(), |phase| format!("{}, {phase}", mpl.mode));
    let waiting: u64 = watch.look.iter().flat_map(|look| &look.classes).map(|class| class.waiting).sum();
    let latest = watch.latest();
    let now = latest.map_or(mpl.throughput, |moment| moment.throughput);
    let response = latest.and_then(|moment| moment.response_ms).unwrap_or(mpl.response_ms);
    let first = vec![
        (0, format!("MPL {limit} ({phase})")),
        (4, format!("active {}", mpl.slots)),
        (1, format!("waiting {waiting}")),
        (2, format!("{} tx/s", rate(now))),
        (3, format!("response {}", ms(response))),
    ];
    let mut second = vec![
        format!("at this limit: {} tx/s", rate(mpl.throughput)),
        ms(mpl.response_ms),
        format!("{:.1} active", mpl.active),
        format!("somebody waits {:.0} %", mpl.saturated * 100.0),
        format!("C\u{b2} {:.1}", mpl.c2),
    ];
    // Counters of rare events are shown only once they have happened: the line is short.
    for (name, count) in [
        ("extra now", mpl.extra_slots.into()),
        ("extra", mpl.extra_total),
        ("lent", mpl.lent_total),
        ("turned away", mpl.turned_away_total),
        ("timed out", mpl.timed_out_total),
        ("demoted", mpl.demoted_total),
        ("cancelled", mpl.cancelled_total),
    ] {
        if 0 < count {
            second.push(format!("{name} {count}"));
        }
    }
    if let Some(resource) = &mpl.dominating {
        second.push(format!("most time goes into {resource}"));
    }
    let second = second.into_iter().enumerate().collect();
    Text::from(vec![Line::from(joined(first, "   ", width)).bold(), Line::from(joined(second, ", ", width)).dim()])
}

/// Draws the limit, throughput and the queue over the past minutes.
pub(super) fn past(watch: &GateWatch, frame: &mut Frame<'_>, area: Rect) {
    if area.height == 0 {
        return;
    }
    let block = heading(format!("last {:.0} minutes", PAST_S / 60.0));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Length(2), Constraint::Length(1)]).split(inner);
    type Value = fn(&HistoryRow) -> Option<f64>;
    let lines: [(&str, Color, Value); 3] = [
        ("MPL", Color::Cyan, |moment| moment.mpl.map(f64::from)),
        ("tx/s", Color::Green, |moment| Some(moment.throughput)),
        ("waiting", Color::Yellow, |moment| Some(moment.waiting)),
    ];
    for ((name, color, value), row) in lines.into_iter().zip(rows.iter()) {
        let [label, line, most] =
            Layout::horizontal([Constraint::Length(8), Constraint::Min(0), Constraint::Length(MOST)]).areas(*row);
        let points = watch.past(PAST_S, line.width.into(), value);
        let top = points.iter().flatten().copied().fold(0.0, f64::max);
        frame.render_widget(Paragraph::new(name), label);
        frame.render_widget(Paragraph::new(format!("  max {}", rate(top))).dim(), most);
        // Values above zero stay visible, however small.
        let height = |value: f64| if 0.0 < value { ((value / top.max(1e-9)) * 1_000.0).max(63.0) as u64 } else { 0 };
        let data: Vec<u64> = points.iter().map(|point| point.map_or(0, height)).collect();
        frame.render_widget(Sparkline::default().data(data).max(1_000).style(Style::new().fg(color)), line);
    }
}

/// Draws a table with a line for each class.
pub(super) fn classes(classes: &[ClassRow], order: &str, frame: &mut Frame<'_>, area: Rect) {
    let maybe = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), rate);
    let column = |name, rank, value: &dyn Fn(&ClassRow) -> String| Column::new(name, rank, classes.iter().map(value));
    let columns = vec![
        column("class", 0, &|class| class.class.clone()).left(),
        column("slots", 2, &|class| class.slots.to_string()),
        column("waiting", 1, &|class| class.waiting.to_string()),
        column("lent", 12, &|class| class.lent.to_string()),
        column("arr/s", 5, &|class| maybe(class.arrivals_per_second)),
        column("done/s", 10, &|class| maybe(class.done_per_second)),
        column("failed", 11, &|class| class.failed.to_string()),
        column("wait p50", 7, &|class| ms(class.wait_p50_ms)),
        column("wait p99", 3, &|class| ms(class.wait_p99_ms)),
        column("inside p50", 6, &|class| ms(class.inside_p50_ms)),
        column("inside p99", 4, &|class| ms(class.inside_p99_ms)),
        column("idle p50", 8, &|class| ms(class.idle_p50_ms)),
        column("idle p99", 13, &|class| ms(class.idle_p99_ms)),
        column("C\u{b2}", 9, &|class| format!("{:.1}", class.c2)),
    ];
    let title = heading(format!("classes, by {order}"));
    frame.render_widget(table(columns, &vec![false; classes.len()], area.width).block(title), area);
}

/// Draws the moves of the limit with their reasons, the latest first.
pub(super) fn moves(moves: &[MoveRow], frame: &mut Frame<'_>, area: Rect) {
    let line = |moved: &MoveRow| {
        let step = match moved.next_mpl == moved.mpl {
            true => format!("{:>9}", moved.mpl),
            false => format!("{:>4} \u{2192} {:<2}", moved.mpl, moved.next_mpl),
        };
        Line::from(vec![
            Span::from(format!("{:>7} ago ", ago(moved.seconds_ago))).dim(),
            Span::from(format!("{step}  ")).bold(),
            Span::from(moved.reason.clone()),
        ])
    };
    let lines: Vec<Line<'_>> = match moves {
        [] => vec![Line::from("It has not moved yet.").dim()],
        moves => moves.iter().map(line).collect(),
    };
    frame.render_widget(Paragraph::new(lines).block(heading("moves of the limit")), area);
}
