//! Drawing of the screen.
//!
//! **Invariant:** parts and columns that do not fit are left out whole, the least important first; nothing depends on
//! colour alone.

mod columns;
mod format;
mod limits;
mod parts;
mod stages;

pub(crate) use format::{ms, rate};

use crate::look::{ClassRow, Look, MplRow, NO_GATE};
use crate::watch::GateWatch;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

/// Age from which on a look is marked as stale, in seconds.
const STALE_S: f64 = 3.0;
/// Width from which on the limits and their moves stand side by side.
const WIDE: u16 = 112;
/// Height from which on the verdict and the stages fit.
const TALL: u16 = 28;

/// Order of the classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ClassOrder {
    /// Order of the gate.
    #[default]
    Class,
    Waiting,
    Arrivals,
    Wait,
    Inside,
}

impl ClassOrder {
    const ALL: [ClassOrder; 5] =
        [ClassOrder::Class, ClassOrder::Waiting, ClassOrder::Arrivals, ClassOrder::Wait, ClassOrder::Inside];

    fn name(self) -> &'static str {
        match self {
            ClassOrder::Class => "class",
            ClassOrder::Waiting => "waiting",
            ClassOrder::Arrivals => "arrivals",
            ClassOrder::Wait => "wait p99",
            ClassOrder::Inside => "inside p99",
        }
    }

    fn by(self, class: &ClassRow) -> f64 {
        match self {
            ClassOrder::Class => 0.0,
            ClassOrder::Waiting => class.waiting as f64,
            ClassOrder::Arrivals => class.arrivals_per_second.unwrap_or(0.0),
            ClassOrder::Wait => class.wait_p99_ms,
            ClassOrder::Inside => class.inside_p99_ms,
        }
    }
}

/// State of the display that the keys control.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    order: usize,
    is_help: bool,
    is_paused: bool,
}

impl Screen {
    /// Handles a key; returns true if the program is to end.
    pub fn key(&mut self, key: char) -> bool {
        match key {
            'q' => return true,
            '?' | 'h' => self.is_help = !self.is_help,
            's' | '>' => self.order = (self.order + 1) % ClassOrder::ALL.len(),
            '<' => self.order = (self.order + ClassOrder::ALL.len() - 1) % ClassOrder::ALL.len(),
            ' ' | 'p' => self.is_paused = !self.is_paused,
            // Escape.
            '\u{1b}' if self.is_help => self.is_help = false,
            '\u{1b}' => return true,
            _ => {}
        }
        false
    }

    /// Returns true while new looks are not shown.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Draws the state at this moment of the clock that stamped its looks.
    pub fn render(&self, watch: &GateWatch, now: f64, frame: &mut Frame<'_>) {
        let [head, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(frame.area());
        frame.render_widget(Paragraph::new(self.title(watch, now)), head);
        match &watch.look {
            Some(Look { mpl: Some(mpl), .. }) => self.gate(watch, mpl, frame, rest),
            Some(look) => no_gate(look, frame, rest),
            None => {}
        }
        if self.is_help {
            help(frame);
        }
    }

    fn title(&self, watch: &GateWatch, now: f64) -> Line<'static> {
        let mut spans = vec![Span::from("overtake top").bold(), Span::from(format!("  {}", watch.target))];
        let age = now - watch.looked_at;
        let state = match (&watch.trouble, &watch.look) {
            (Some(reason), _) => Some(format!("connection lost, trying again: {reason}")),
            (None, None) => Some("connecting".to_owned()),
            (None, Some(_)) if self.is_paused => Some("paused".to_owned()),
            (None, Some(_)) if STALE_S < age => Some(format!("no answer for {age:.0} s")),
            _ => None,
        };
        match state {
            Some(state) => spans.push(Span::styled(format!("  {state}"), Style::new().fg(Color::Red).bold())),
            None => spans.push(Span::from("  ? help  q quit").dim()),
        }
        Line::from(spans)
    }

    fn gate(&self, watch: &GateWatch, mpl: &MplRow, frame: &mut Frame<'_>, area: Rect) {
        let look = watch.look.as_ref().expect("whoever has a gate has looked");
        let classes = u16::try_from(look.classes.len()).unwrap_or(u16::MAX).saturating_add(2);
        let verdict = watch.verdict.as_deref().unwrap_or_default();
        let tall = if TALL <= area.height { parts::lines_of(verdict, area.width) } else { 0 };
        let staged = if TALL <= area.height { stages::height(look) } else { 0 };
        let [summary, words, lines, table, staged, rest] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(tall),
            Constraint::Length(if area.height < 16 { 0 } else { 5 }),
            Constraint::Length(classes),
            Constraint::Length(staged),
            Constraint::Min(0),
        ])
        .areas(area);
        frame.render_widget(Paragraph::new(parts::summary(watch, mpl, area.width)), summary);
        frame.render_widget(Paragraph::new(verdict).wrap(Wrap { trim: true }), words);
        parts::past(watch, frame, lines);
        let order = ClassOrder::ALL[self.order];
        let mut sorted = look.classes.clone();
        sorted.sort_by(|a, b| order.by(b).total_cmp(&order.by(a)));
        parts::classes(&sorted, order.name(), frame, table);
        stages::render(look, frame, staged);
        let [limits, moves] = if WIDE <= rest.width {
            Layout::horizontal([Constraint::Length(62), Constraint::Min(0)]).areas(rest)
        } else {
            Layout::vertical([Constraint::Percentage(55), Constraint::Min(0)]).areas(rest)
        };
        limits::render(watch, mpl, frame, limits);
        parts::moves(&look.moves, frame, moves);
    }
}

/// Draws what is there without a gate: the stages of statements.
fn no_gate(look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let lines = parts::lines_of(NO_GATE, area.width);
    let [words, staged, _] =
        Layout::vertical([Constraint::Length(lines + 1), Constraint::Length(stages::height(look)), Constraint::Min(0)])
            .areas(area);
    frame.render_widget(Paragraph::new(NO_GATE).wrap(Wrap { trim: true }), words);
    stages::render(look, frame, staged);
}

const HELP: &str = "\
q  Esc     end
s  <  >    order of classes
p  space   pause, go on
?          this text

slots    transactions that are active inside
wait     time outside; inside: time active inside
idle     time in which it was the client's turn
C\u{b2}       how much demands vary; 1: exponential
lent     waits for its client, slot lent

All times of classes are since the server began.";

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (56.min(area.width), 15.min(area.height));
    let inner = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, inner);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" Keys and words ")), inner);
}

#[cfg(test)]
mod tests;
