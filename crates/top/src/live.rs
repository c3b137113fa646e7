//! The live display in the terminal.
//!
//! **Invariant:** the terminal is restored when the program ends, however it ends; a server that does not answer never
//! delays a key.

use crate::TopOptions;
use crate::client::Client;
use crate::error::Error;
use crate::look::Look;
use crate::screen::Screen;
use crate::watch::GateWatch;
use ratatui::Terminal;
use ratatui::backend::TermionBackend;
use ratatui::termion::event::Key;
use ratatui::termion::input::TermRead;
use ratatui::termion::raw::IntoRawMode;
use ratatui::termion::screen::IntoAlternateScreen;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Longest delay before a change of the terminal's size, or a request to end, is noticed.
const NOTICE: Duration = Duration::from_millis(250);
/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);

enum LiveEvent {
    Key(Key),
    Look(Box<Look>),
    Lost(Error),
}

pub(crate) fn run(options: &TopOptions, wait: &dyn Fn(Duration) -> bool) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Errors of the first connection are reported as text, before the terminal changes its mode.
    let client = runtime.block_on(Client::connect(&options.target))?;
    let (sender, events) = channel();
    {
        let (sender, options) = (sender.clone(), options.clone());
        thread::spawn(move || runtime.block_on(look(client, &options, &sender)));
    }
    thread::spawn(move || {
        for key in std::io::stdin().keys().map_while(Result::ok) {
            if sender.send(LiveEvent::Key(key)).is_err() {
                return;
            }
        }
    });
    let screen = std::io::stdout().into_raw_mode()?.into_alternate_screen()?;
    let mut terminal = Terminal::new(TermionBackend::new(screen))?;
    terminal.hide_cursor()?;
    let shown = show(&mut terminal, &events, options, wait);
    terminal.show_cursor()?;
    shown
}

/// Reads the views once per interval, until the receiver is gone.
async fn look(client: Client, options: &TopOptions, to: &Sender<LiveEvent>) {
    let mut client = Some(client);
    loop {
        let looked = match &mut client {
            Some(client) => client.look().await,
            None => match Client::connect(&options.target).await {
                Ok(mut found) => {
                    let looked = found.look().await;
                    client = Some(found);
                    looked
                }
                Err(error) => Err(error),
            },
        };
        let (event, pause) = match looked {
            Ok(look) => (LiveEvent::Look(Box::new(look)), options.interval),
            Err(error) => {
                client = None;
                (LiveEvent::Lost(error), PAUSE)
            }
        };
        if to.send(event).is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

fn show<B: ratatui::backend::Backend>(
    terminal: &mut Terminal<B>,
    events: &Receiver<LiveEvent>,
    options: &TopOptions,
    wait: &dyn Fn(Duration) -> bool,
) -> Result<(), Error>
where
    Error: From<B::Error>,
{
    let began = Instant::now();
    let mut watch = GateWatch::new(options.target.to_string());
    // State at the time of the pause. Looks that arrive meanwhile are not lost: they are shown when the screen goes on.
    let mut paused: Option<(GateWatch, f64)> = None;
    let mut screen = Screen::default();
    loop {
        let now = began.elapsed().as_secs_f64();
        if screen.is_paused() {
            paused.get_or_insert_with(|| (watch.clone(), now));
        } else {
            paused = None;
        }
        let (shown, at) = paused.as_ref().map_or((&watch, now), |(watch, at)| (watch, *at));
        terminal.draw(|frame| screen.render(shown, at, frame))?;
        match events.recv_timeout(NOTICE) {
            Ok(LiveEvent::Key(Key::Ctrl('c'))) => return Ok(()),
            Ok(LiveEvent::Key(key)) => {
                let key = match key {
                    Key::Char(key) => key,
                    Key::Esc => '\u{1b}',
                    Key::Left => '<',
                    Key::Right => '>',
                    _ => continue,
                };
                if screen.key(key) {
                    return Ok(());
                }
            }
            Ok(LiveEvent::Look(look)) => watch.see(began.elapsed().as_secs_f64(), *look),
            Ok(LiveEvent::Lost(error)) => watch.lose(error.to_string()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if wait(Duration::ZERO) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::MplRow;
    use ratatui::backend::TestBackend;

    impl From<std::convert::Infallible> for Error {
        fn from(never: std::convert::Infallible) -> Error {
            match never {}
        }
    }

    /// Returns the text on the screen after these events.
    fn screen(events: impl IntoIterator<Item = LiveEvent>) -> String {
        let (sender, receiver) = channel();
        events.into_iter().for_each(|event| sender.send(event).expect("somebody listens"));
        drop(sender);
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).expect("a terminal");
        let target = crate::Target::new(Some("postgres://127.0.0.1"), |_| None).expect("a target");
        let options = TopOptions { target, interval: PAUSE, count: None, json: false };
        show(&mut terminal, &receiver, &options, &|_| false).expect("it is shown");
        terminal.backend().buffer().content().iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn a_pause_stops_the_screen_and_nothing_else() {
        let look = |mode: &str| {
            let mpl = MplRow { mode: mode.to_owned(), mpl: Some(8), ..MplRow::default() };
            LiveEvent::Look(Box::new(Look { mpl: Some(mpl), ..Look::default() }))
        };
        let key = || LiveEvent::Key(Key::Char('p'));
        let paused = screen([look("early"), key(), look("late")]);
        assert!(paused.contains("early") && paused.contains("paused") && !paused.contains("late"), "{paused}");
        let gone_on = screen([look("early"), key(), look("late"), key()]);
        assert!(gone_on.contains("late") && !gone_on.contains("paused"), "{gone_on}");
    }
}
