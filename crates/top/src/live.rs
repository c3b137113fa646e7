//! The terminal.
//!
//! **Invariant:** the terminal is as it was when this ends, however it ends; a server that does not answer never holds up a key.

use crate::Options;
use crate::client::Client;
use crate::error::Error;
use crate::look::Look;
use crate::screen::Screen;
use crate::watch::Watch;
use ratatui::Terminal;
use ratatui::backend::TermionBackend;
use ratatui::termion::event::Key;
use ratatui::termion::input::TermRead;
use ratatui::termion::raw::IntoRawMode;
use ratatui::termion::screen::IntoAlternateScreen;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How soon a change of the terminal's size, or the end that was asked for, is noticed.
const NOTICE: Duration = Duration::from_millis(250);
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);

enum Event {
    Key(Key),
    Look(Box<Look>),
    Lost(Error),
}

pub(crate) fn run(options: &Options, wait: &dyn Fn(Duration) -> bool) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // What is wrong from the beginning is told as text.
    let client = runtime.block_on(Client::connect(&options.target))?;
    let (sender, events) = channel();
    {
        let (sender, options) = (sender.clone(), options.clone());
        thread::spawn(move || runtime.block_on(look(client, &options, &sender)));
    }
    thread::spawn(move || {
        for key in std::io::stdin().keys().map_while(Result::ok) {
            if sender.send(Event::Key(key)).is_err() {
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

/// Looks once in a while, until nobody listens.
async fn look(client: Client, options: &Options, to: &Sender<Event>) {
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
            Ok(look) => (Event::Look(Box::new(look)), options.interval),
            Err(error) => {
                client = None;
                (Event::Lost(error), PAUSE)
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
    events: &Receiver<Event>,
    options: &Options,
    wait: &dyn Fn(Duration) -> bool,
) -> Result<(), Error>
where
    Error: From<B::Error>,
{
    let began = Instant::now();
    let mut watch = Watch::new(options.target.to_string());
    let mut screen = Screen::default();
    loop {
        let now = began.elapsed().as_secs_f64();
        terminal.draw(|frame| screen.render(&watch, now, frame))?;
        match events.recv_timeout(NOTICE) {
            Ok(Event::Key(Key::Ctrl('c'))) => return Ok(()),
            Ok(Event::Key(key)) => {
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
            Ok(Event::Look(_) | Event::Lost(_)) if screen.is_paused() => {}
            Ok(Event::Look(look)) => watch.see(began.elapsed().as_secs_f64(), *look),
            Ok(Event::Lost(error)) => watch.lose(error.to_string()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if wait(Duration::ZERO) {
            return Ok(());
        }
    }
}
