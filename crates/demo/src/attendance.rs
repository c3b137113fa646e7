//! Attendance: without a viewer the load stops, because a forgotten demonstration would keep the machine busy.
//!
//! **Invariant:** a load that was stopped here, and only that, starts again when a page opens; a command in between
//! overrules it. The clock is the caller's.

use std::time::Duration;

use crate::Demo;

/// Time without a viewer after which the load stops.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The load that was stopped.
struct Stopped {
    query: Option<String>,
    rate_per_s: f64,
}

/// Attendance of the viewers.
pub struct Attendance {
    /// Moment at which a page was open, or a command came, last.
    attended: Duration,
    commands: u64,
    stopped: Option<Stopped>,
}

impl Attendance {
    /// Creates the attendance at this moment, from which the patience counts.
    pub fn new(now: Duration) -> Attendance {
        Attendance { attended: now, commands: 0, stopped: None }
    }

    /// Looks at the number of open pages, and that of the commands so far, and stops or starts the load. It blocks as
    /// long as a query's cancellation.
    pub fn look(&mut self, demo: &dyn Demo, now: Duration, pages: usize, commands: u64) {
        if commands != self.commands {
            // Whoever gives commands says what is to run.
            self.commands = commands;
            self.attended = now;
            self.stopped = None;
        }
        if 0 < pages {
            self.attended = now;
            if let Some(stopped) = self.stopped.take() {
                start(demo, &stopped);
            }
        } else if self.stopped.is_none() && PATIENCE <= now.saturating_sub(self.attended) {
            self.stopped = stop(demo);
        }
    }
}

/// Stops query and arrivals; returns what ran, if anything did.
fn stop(demo: &dyn Demo) -> Option<Stopped> {
    let chosen = demo.instances().into_iter().find(|instance| instance.selected)?;
    if chosen.query.is_none() && chosen.rate_per_s <= 0.0 {
        return None;
    }
    // A failure leaves the load as it is; it is tried again at the next look.
    demo.set_rate(0.0).ok()?;
    let stopped = Stopped { query: chosen.query, rate_per_s: chosen.rate_per_s };
    if demo.stop_query().is_err() {
        start(demo, &Stopped { query: None, ..stopped });
        return None;
    }
    Some(stopped)
}

fn start(demo: &dyn Demo, stopped: &Stopped) {
    // The page shows what runs; an error here means that the demonstration is ending.
    if let Some(query) = &stopped.query
        && demo.start_query(query).is_err()
    {
        return;
    }
    if 0.0 < stopped.rate_per_s {
        let _ = demo.set_rate(stopped.rate_per_s);
    }
}
