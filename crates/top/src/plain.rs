//! Output where there is no terminal: for scripts, logs and tests.

use crate::TopOptions;
use crate::client::Client;
use crate::error::Error;
use crate::look::{Look, MplRow, NO_GATE, in_words};
use crate::screen::{ms, rate};
use std::io::{ErrorKind, Write};
use std::time::Duration;

/// Writes one look after the other. A lost connection is reported on standard error and tried again, unless a single
/// look was asked for.
///
/// # Errors
/// The errors of [`crate::run`]; a closed pipe is none.
pub fn run(options: &TopOptions, out: &mut dyn Write, wait: &dyn Fn(Duration) -> bool) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut client = Some(runtime.block_on(Client::connect(&options.target))?);
    let mut left = options.count.unwrap_or(u64::MAX);
    loop {
        let looked = runtime.block_on(async {
            if client.is_none() {
                client = Some(Client::connect(&options.target).await?);
            }
            client.as_mut().expect("it was just made").look().await
        });
        match looked {
            Ok(look) => {
                match write(&look, options.json, out).and_then(|()| out.flush()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                    written => written?,
                }
                left -= 1;
            }
            Err(error) if options.count == Some(1) => return Err(error),
            Err(error) => {
                eprintln!("overtake: {error}; trying again");
                client = None;
            }
        }
        if left == 0 || wait(options.interval) {
            return Ok(());
        }
    }
}

/// Writes one look: an object on a line of its own, or a few lines and an empty one.
///
/// # Errors
/// The error of the writer.
pub fn write(look: &Look, json: bool, out: &mut dyn Write) -> std::io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, look)?;
        return writeln!(out);
    }
    let Some(mpl) = &look.mpl else {
        writeln!(out, "{NO_GATE}")?;
        stages(look, out)?;
        return writeln!(out);
    };
    summary(look, mpl, out)?;
    let names = [
        "class",
        "slots",
        "waiting",
        "arr/s",
        "done/s",
        "wait p50",
        "p99",
        "inside p50",
        "p99",
        "idle p50",
        "p99",
        "C\u{b2}",
    ];
    let widths = [10, 5, 7, 8, 8, 8, 8, 10, 8, 8, 8, 6];
    let line = |out: &mut dyn Write, cells: &[String]| {
        let mut text = String::new();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let width = width as usize;
            text += &if at == 0 { format!("{cell:<width$}") } else { format!(" {cell:>width$}") };
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(out, &names.map(str::to_owned))?;
    for class in &look.classes {
        // Rates need two looks: the first has none.
        let maybe = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), rate);
        let cells = [
            class.class.clone(),
            class.slots.to_string(),
            class.waiting.to_string(),
            maybe(class.arrivals_per_second),
            maybe(class.done_per_second),
            ms(class.wait_p50_ms),
            ms(class.wait_p99_ms),
            ms(class.inside_p50_ms),
            ms(class.inside_p99_ms),
            ms(class.idle_p50_ms),
            ms(class.idle_p99_ms),
            format!("{:.1}", class.c2),
        ];
        line(out, &cells)?;
    }
    stages(look, out)?;
    if let Some(verdict) = &look.verdict {
        writeln!(out, "{verdict}")?;
    }
    if let Some(last) = look.moves.first() {
        let step =
            if last.mpl == last.next_mpl { last.mpl.to_string() } else { format!("{} to {}", last.mpl, last.next_mpl) };
        writeln!(out, "last move, {:.0} s ago: {step}: {}", last.seconds_ago, last.reason)?;
    }
    writeln!(out)
}

fn stages(look: &Look, out: &mut dyn Write) -> std::io::Result<()> {
    let mut shares = look.shares().into_iter();
    shares.try_for_each(|(class, shares)| writeln!(out, "stages of {class}: {}", in_words(&shares).join(", ")))
}

fn summary(look: &Look, mpl: &MplRow, out: &mut dyn Write) -> std::io::Result<()> {
    let limit = mpl.mpl.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let phase = mpl.phase.as_ref().map_or_else(|| mpl.mode.clone(), |phase| format!("{}, {phase}", mpl.mode));
    let waiting: u64 = look.classes.iter().map(|class| class.waiting).sum();
    let latest = look.history.last();
    writeln!(
        out,
        "MPL {limit} ({phase})  active {}  waiting {waiting}  {} tx/s  response {}  C\u{b2} {:.1}{}",
        mpl.slots,
        rate(latest.map_or(mpl.throughput, |moment| moment.throughput)),
        ms(latest.and_then(|moment| moment.response_ms).unwrap_or(mpl.response_ms)),
        mpl.c2,
        mpl.dominating.as_ref().map(|resource| format!("  most time goes into {resource}")).unwrap_or_default()
    )
}
