//! The gate in two lines, the past minutes, the classes, the moves.

use super::format::{ago, ms, rate};
use crate::look::{Class, Moment, Move, Mpl};
use crate::watch::Watch;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table};

/// What the lines of the past show.
const PAST_S: f64 = 300.0;

pub(super) fn heading(text: impl Into<String>) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(Style::new().dim())
        .title(Span::from(format!(" {} ", text.into())).bold())
}

/// Lines that a text takes when it is broken between its words.
pub(super) fn lines_of(text: &str, width: u16) -> u16 {
    let (mut lines, mut at) = (0, usize::MAX);
    for length in text.split_whitespace().map(|word| word.chars().count()) {
        let end = at.saturating_add(1 + length);
        (lines, at) = if usize::from(width) < end { (lines + 1, length) } else { (lines, end) };
    }
    lines
}

/// The limit, and what is there.
pub(super) fn summary(watch: &Watch, mpl: &Mpl) -> Text<'static> {
    let limit = mpl.mpl.map_or_else(|| "none (observing)".to_owned(), |limit| limit.to_string());
    let phase = mpl.phase.as_ref().map_or_else(|| mpl.mode.clone(), |phase| format!("{}, {phase}", mpl.mode));
    let waiting: u64 = watch.look.iter().flat_map(|look| &look.classes).map(|class| class.waiting).sum();
    let latest = watch.latest();
    let now = latest.map_or(mpl.throughput, |moment| moment.throughput);
    let response = latest.and_then(|moment| moment.response_ms).unwrap_or(mpl.response_ms);
    let first = Line::from(vec![
        Span::from("MPL "),
        Span::from(limit).bold(),
        Span::from(format!(" ({phase})   active {}   waiting {waiting}   ", mpl.slots)),
        Span::from(rate(now)).bold(),
        Span::from(format!(" tx/s   response {}", ms(response))),
    ]);
    let mut second = format!(
        "at this limit: {} tx/s, {}, {:.1} active, somebody waits {:.0} %, C\u{b2} {:.1}",
        rate(mpl.throughput),
        ms(mpl.response_ms),
        mpl.active,
        mpl.saturated * 100.0,
        mpl.c2
    );
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
            second += &format!(", {name} {count}");
        }
    }
    if let Some(resource) = &mpl.dominating {
        second += &format!(", most time goes into {resource}");
    }
    Text::from(vec![first, Line::from(second).dim()])
}

/// The limit, throughput and the queue over the past minutes.
pub(super) fn past(watch: &Watch, frame: &mut Frame<'_>, area: Rect) {
    if area.height == 0 {
        return;
    }
    let block = heading(format!("last {:.0} minutes", PAST_S / 60.0));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Length(2), Constraint::Length(1)]).split(inner);
    type Value = fn(&Moment) -> Option<f64>;
    let lines: [(&str, Color, Value); 3] = [
        ("MPL", Color::Cyan, |moment| moment.mpl.map(f64::from)),
        ("tx/s", Color::Green, |moment| Some(moment.throughput)),
        ("waiting", Color::Yellow, |moment| Some(moment.waiting)),
    ];
    for ((name, color, value), row) in lines.into_iter().zip(rows.iter()) {
        let [label, line, most] =
            Layout::horizontal([Constraint::Length(8), Constraint::Min(0), Constraint::Length(12)]).areas(*row);
        let points = watch.past(PAST_S, line.width.into(), value);
        let top = points.iter().flatten().copied().fold(0.0, f64::max);
        frame.render_widget(Paragraph::new(name), label);
        frame.render_widget(Paragraph::new(format!("  max {}", rate(top))).dim(), most);
        // What is not nothing is seen.
        let height = |value: f64| if 0.0 < value { ((value / top.max(1e-9)) * 1_000.0).max(63.0) as u64 } else { 0 };
        let data: Vec<u64> = points.iter().map(|point| point.map_or(0, height)).collect();
        frame.render_widget(Sparkline::default().data(data).max(1_000).style(Style::new().fg(color)), line);
    }
}

/// A line for each class.
pub(super) fn classes(classes: &[Class], order: &str, is_wide: bool, frame: &mut Frame<'_>, area: Rect) {
    let maybe = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), rate);
    type Column = (&'static str, u16, bool, fn(&Class) -> String);
    let columns: [Column; 14] = [
        ("class", 8, true, |class| class.class.clone()),
        ("slots", 5, true, |class| class.slots.to_string()),
        ("waiting", 7, true, |class| class.waiting.to_string()),
        ("lent", 4, false, |class| class.lent.to_string()),
        ("arr/s", 7, true, |_| String::new()),
        ("done/s", 7, false, |_| String::new()),
        ("failed", 6, false, |class| class.failed.to_string()),
        ("wait p50", 8, true, |class| ms(class.wait_p50_ms)),
        ("p99", 7, true, |class| ms(class.wait_p99_ms)),
        ("inside", 7, true, |class| ms(class.inside_p50_ms)),
        ("p99", 7, true, |class| ms(class.inside_p99_ms)),
        ("idle", 7, true, |class| ms(class.idle_p50_ms)),
        ("p99", 7, false, |class| ms(class.idle_p99_ms)),
        ("C\u{b2}", 5, true, |class| format!("{:.1}", class.c2)),
    ];
    let shown = columns.iter().filter(|(_, _, is_needed, _)| is_wide || *is_needed);
    let widths: Vec<Constraint> = shown.clone().map(|(_, width, ..)| Constraint::Length(*width)).collect();
    let aligned = |at: usize, text: String| {
        let text = Text::from(text);
        Cell::from(if at == 0 { text } else { text.right_aligned() })
    };
    let head = Row::new(shown.clone().enumerate().map(|(at, (name, ..))| aligned(at, (*name).to_owned()))).dim();
    let rows = classes.iter().map(|class| {
        let cell = |(at, (name, _, _, value)): (usize, &Column)| {
            let text = match *name {
                "arr/s" => maybe(class.arrivals_per_second),
                "done/s" => maybe(class.done_per_second),
                _ => value(class),
            };
            aligned(at, text)
        };
        Row::new(shown.clone().enumerate().map(cell))
    });
    let title = heading(format!("classes, by {order}"));
    frame.render_widget(Table::new(rows, widths).header(head).block(title), area);
}

/// Why the limit has moved, the latest first.
pub(super) fn moves(moves: &[Move], frame: &mut Frame<'_>, area: Rect) {
    let line = |moved: &Move| {
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
