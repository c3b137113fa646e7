//! The page in a headless Chromium.

use crate::fake::{Fake, Served};
use std::env;
use std::net::TcpListener;
use std::path::PathBuf;
use web::chromium::{Browser, CheckError, Page};

/// Time limit of a check, in milliseconds.
const PATIENCE: u64 = 30_000;

/// Runs a check that needs a browser. Without a browser it reports a skip, and fails where a skip is not allowed.
fn with_browser(name: &str, run: impl FnOnce() -> Result<(), CheckError>) {
    match run() {
        Ok(()) => {}
        Err(CheckError::Missing) => {
            eprintln!("\n*** SKIPPED {name}: {} ***\n", CheckError::Missing);
            assert!(env::var_os("OVERTAKE_CI").is_none(), "{name}: a skip is a failure in CI");
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

fn picture(page: &mut Page<'_>, name: &str) -> Result<(), CheckError> {
    match env::var_os("OVERTAKE_PICTURES") {
        Some(folder) => page.screenshot(&PathBuf::from(folder).join(format!("console-{name}.png")), true),
        None => Ok(()),
    }
}

const READY: &str = "document.body.dataset.phase === 'ready'";

/// Goal: all parts are there, live, in words too, in both themes, and on a small screen.
pub fn the_console_works() {
    with_browser("the_console_works", || {
        let served = Served::new(Fake::default());
        let mut browser = Browser::start()?;
        let mut page = browser.page()?;
        page.resize(1440, 900)?;
        page.prefer("prefers-color-scheme", "light")?;
        page.open(&format!("http://{}/", served.address))?;
        for (what, expression) in [
            ("it is ready", READY),
            (
                "the limit and its phase",
                "/^Limit \\(MPL\\)8 auto, holding/.test(document.querySelector('#now div').textContent)",
            ),
            ("what waits, of all classes", "document.getElementById('now').textContent.includes('Waiting42')"),
            ("four lines of the past", "document.querySelectorAll('#past .mark').length === 4"),
            (
                "the past in words",
                "/^Limit \\(MPL\\): now 8, at most 12$/.test(document.querySelector('[data-chart=mpl] svg').ariaLabel)",
            ),
            ("the model's curves", "document.querySelectorAll('#model .mark').length === 2"),
            (
                "observations beside them",
                "document.querySelectorAll('#model [data-chart=throughput] .dot').length === 3",
            ),
            (
                "the limit in force",
                "[...document.querySelectorAll('#model text')].filter((text) => text.textContent === 'MPL 8').length === 2",
            ),
            ("the verdict, as text", "document.getElementById('verdict').textContent.includes('the <lowest> that')"),
            (
                "what dominates",
                "document.getElementById('dominating').textContent.startsWith('Most of it goes into lock') && document.querySelector('#resources i.most').offsetWidth > 2 * document.querySelectorAll('#resources i')[1].offsetWidth",
            ),
            ("nine histograms", "document.querySelectorAll('#histograms figure').length === 9"),
            (
                "their bars and words",
                "document.querySelectorAll('[data-chart=normal-wait] .bar').length === 6 && document.querySelector('[data-chart=normal-wait] svg').ariaLabel === 'normal: wait: p50 5.00 ms, p99 45.0 ms'",
            ),
            (
                "names are text",
                "document.querySelector('#classes tbody tr:last-child td').textContent === '<i>low</i>' && !document.querySelector('#classes i')",
            ),
            (
                "stages of a class in words, over all transports",
                "document.querySelector('#stages [data-class=high] span').textContent === 'run 60 %, lock_wait 20 %, network_write 20 %'",
            ),
            (
                "stages as parts of a bar",
                "(() => { const parts = [...document.querySelectorAll('#stages [data-class=high] i')]; return parts.map((part) => part.dataset.stage).join() === 'run,lock_wait,network_write' && parts[0].offsetWidth > 2.5 * parts[1].offsetWidth && parts[1].className === 'waiting'; })()",
            ),
            ("only stages that were passed", "document.querySelectorAll('#stages [data-class=normal] i').length === 1"),
            ("the cost of the clock", "document.getElementById('stages-cost').textContent.includes('0.4 %')"),
            (
                "C² of each class",
                "[...document.querySelectorAll('#classes tbody tr')].every((row) => row.lastChild.textContent === '1.4')",
            ),
            (
                "rates, from two looks",
                "[...document.querySelectorAll('#classes tbody tr')].every((row) => /^[\\d,.]+$/.test(row.children[4].textContent) && row.children[4].textContent !== '0.0')",
            ),
            (
                "the last move first",
                "document.querySelector('#log tbody tr td.words').textContent === 'it keeps the thresholds, at a loss of 2.1 %'",
            ),
            (
                "no request left this server",
                "performance.getEntriesByType('resource').every((entry) => entry.name.startsWith(location.origin) || entry.name.startsWith('data:'))",
            ),
            (
                "every control has a name",
                "[...document.querySelectorAll('input')].every((input) => input.labels.length === 1 && input.labels[0].textContent.trim() !== '')",
            ),
        ] {
            page.until(what, expression, PATIENCE)?;
        }
        picture(&mut page, "light")?;
        page.click("#range input[value='3600']")?;
        page.until(
            "an hour is shown",
            "document.querySelector('[data-chart=waiting] svg').textContent.includes('−60 min')",
            PATIENCE,
        )?;
        page.press("ArrowRight")?;
        page.until(
            "a day by the keyboard",
            "document.querySelector('[data-chart=waiting] svg').textContent.includes('−24 h')",
            PATIENCE,
        )?;
        let light = page.value("getComputedStyle(document.body).backgroundColor")?;
        page.prefer("prefers-color-scheme", "dark")?;
        page.until("it is dark", &format!("getComputedStyle(document.body).backgroundColor !== {light}"), PATIENCE)?;
        picture(&mut page, "dark")?;
        page.resize(360, 740)?;
        page.until("no sideways scrolling", "document.documentElement.scrollWidth <= 360", PATIENCE)?;
        picture(&mut page, "small")?;
        assert_eq!(page.errors(), &[] as &[String]);
        Ok(())
    });
}

/// Goal: a server without a gate shows how to enable one, and nothing else.
pub fn without_a_gate_it_says_what_to_do() {
    with_browser("without_a_gate_it_says_what_to_do", || {
        let served = Served::new(Fake { has_no_gate: true, ..Fake::default() });
        let mut browser = Browser::start()?;
        let mut page = browser.page()?;
        page.open(&format!("http://{}/", served.address))?;
        page.until("it says so", "document.body.dataset.phase === 'no-gate' && document.getElementById('no-gate').innerText.includes('overtake.mpl=observe')", PATIENCE)?;
        page.until("the stages", "document.querySelectorAll('#stages figure').length === 2", PATIENCE)?;
        page.until(
            "nothing else",
            "[...document.querySelectorAll('.with-gate')].every((section) => section.offsetParent === null)",
            PATIENCE,
        )?;
        picture(&mut page, "no-gate")?;
        assert_eq!(page.errors(), &[] as &[String]);
        Ok(())
    });
}

/// Goal: the page reports a lost server, and notices its return.
pub fn it_comes_back() {
    with_browser("it_comes_back", || {
        let mut served = Served::new(Fake::default());
        let mut browser = Browser::start()?;
        let mut page = browser.page()?;
        page.open(&format!("http://{}/", served.address))?;
        page.until("it is ready", READY, PATIENCE)?;
        let address = served.address;
        served.end();
        page.until(
            "it is told",
            "document.body.dataset.phase === 'gone' && !document.getElementById('banner').hidden",
            PATIENCE,
        )?;
        let _again = Served::on(TcpListener::bind(address).expect("the port is free again"), Fake::default());
        page.until(
            "it is back",
            "document.body.dataset.phase === 'ready' && document.getElementById('banner').hidden",
            PATIENCE,
        )
    });
}
