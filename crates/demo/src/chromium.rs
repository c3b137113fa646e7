//! Checks that must hold for the page wherever it is served: by a test's fake or by `overtake demo`.

use std::path::PathBuf;

pub use web::chromium::{Browser, CheckError, Page, is_installed};

/// Screen of phones that are still in use, in pixels.
const SMALL_PX: (u32, u32) = (360, 740);
/// Screen of a lectern, in pixels.
const LARGE_PX: (u32, u32) = (1440, 900);

/// Screen on which the point of the demonstration is to be visible without scrolling, in pixels.
const FIRST_PX: (u32, u32) = (1400, 900);

/// Options of the checks.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Folder for pictures; none are made without it.
    pub pictures: Option<PathBuf>,
    /// Patience for loading and for results, in milliseconds.
    pub patience_ms: u64,
}

/// Makes all checks against the page at `url`, which may be loading still. `passed` receives the name of each.
///
/// # Errors
/// [`CheckError::Missing`] without a browser; [`CheckError::Page`] with the first check that fails.
pub fn check(url: &str, options: &CheckOptions, passed: &mut dyn FnMut(&str)) -> Result<(), CheckError> {
    let mut browser = Browser::start()?;
    let page = browser.page()?;
    let mut visit = Visit { page, options };
    visit.page.resize(LARGE_PX.0, LARGE_PX.1)?;
    visit.page.prefer("prefers-color-scheme", "light")?;
    visit.page.open(url)?;
    let checks: [(&str, Check<'_>); 15] = [
        ("opens at once and tells what it loads", Visit::opens),
        ("explains itself before anything runs", Visit::explains),
        ("an instance is chosen by pointer and by key", Visit::chooses),
        ("the query starts, fills the timeline, and its runs are timed", Visit::runs_the_query),
        ("a query of another set takes its place", Visit::changes_the_query),
        ("one New-Order gets a row in the table and the magnifier", Visit::issues_one),
        ("a rate starts and stops", Visit::keeps_a_rate),
        ("each policy has a row of its own", Visit::compares),
        ("buttons, latest latencies and bars fit the first screen", Visit::fits_the_first_screen),
        ("verdict, bars and figures agree", Visit::agrees_with_its_figures),
        ("keys work, and not while a number is typed", Visit::hears_keys),
        ("the tour begins with wait and can be stopped", Visit::tours),
        ("light and dark", Visit::changes_theme),
        ("no sideways scrolling on a small screen", Visit::fits_small),
        ("everything stops, and clears", Visit::stops),
    ];
    for (name, run) in checks {
        run(&mut visit).map_err(|error| match error {
            CheckError::Page(text) => CheckError::Page(format!("{name}: {text}")),
            other => other,
        })?;
        if let Some(first) = visit.page.errors().first() {
            return Err(CheckError::Page(format!("{name}: the console says {first}")));
        }
        passed(name);
    }
    Ok(())
}

type Check<'a> = fn(&mut Visit<'a>) -> Result<(), CheckError>;

struct Visit<'a> {
    page: Page<'a>,
    options: &'a CheckOptions,
}

impl Visit<'_> {
    fn until(&mut self, what: &str, expression: &str) -> Result<(), CheckError> {
        self.page.until(what, expression, self.options.patience_ms)
    }

    fn holds(&mut self, what: &str, expression: &str) -> Result<(), CheckError> {
        self.page.until(what, expression, 2_000)
    }

    fn picture(&mut self, name: &str, whole: bool) -> Result<(), CheckError> {
        match &self.options.pictures {
            Some(folder) => {
                let file = folder.join(format!("demo-{name}.png"));
                self.page.screenshot(&file, whole)
            }
            None => Ok(()),
        }
    }

    fn opens(&mut self) -> Result<(), CheckError> {
        self.holds(
            "the question stands there",
            "document.querySelector('h1')?.textContent.includes('urgent transaction') === true",
        )?;
        self.until("loading ends", "document.body.dataset.phase === 'ready'")?;
        self.until("the chart library arrives", "typeof window.Plotly === 'object'")?;
        self.holds("no request left this server", "performance.getEntriesByType('resource').every((entry) => entry.name.startsWith(location.origin) || entry.name.startsWith('data:'))")
    }

    fn explains(&mut self) -> Result<(), CheckError> {
        self.holds("the machine's facts", "document.querySelectorAll('#facts dt').length >= 6 && !document.getElementById('facts').textContent.includes('undefined')")?;
        self.holds("the delivery rung in use and why", "document.querySelectorAll('#rungs li.used').length >= 1 && document.getElementById('delivery-why').textContent.length > 20")?;
        self.holds(
            "whether instances compete",
            "document.getElementById('machine-line').textContent.includes('instance')",
        )?;
        self.holds("how psql reaches each instance", "document.querySelectorAll('#psql dd').length === 3 && [...document.querySelectorAll('#psql dd')].every((shown) => shown.textContent.startsWith('psql '))")?;
        self.holds("Figure 1: 9, 3 and 1 units", "document.querySelector('#figure1 svg').getAttribute('aria-label') === 'wait: done after 9 units; yield: done after 3 units; preempt: done after 1 units'")?;
        self.holds("a query to choose and its text", "document.querySelectorAll('#query option').length >= 1 && document.getElementById('sql').textContent.length > 10")?;
        self.holds(
            "every control has a name",
            "[...document.querySelectorAll('button, select, input')].every((control) => control.textContent.trim() || control.labels?.length || control.ariaLabel)",
        )?;
        self.picture("light", true)
    }

    fn chooses(&mut self) -> Result<(), CheckError> {
        self.page.click("input[value=wait]")?;
        self.until(
            "wait is chosen",
            "document.querySelector('input[value=wait]').checked && document.body.dataset.policy === 'wait'",
        )?;
        self.page.press("ArrowRight")?;
        self.until("the arrow key chooses yield", "document.body.dataset.policy === 'yield'")?;
        self.page.press("3")?;
        self.until("3 chooses preempt", "document.body.dataset.policy === 'preempt'")
    }

    fn runs_the_query(&mut self) -> Result<(), CheckError> {
        self.page.click("#query-toggle")?;
        self.until("it runs", "document.getElementById('query-toggle').getAttribute('aria-pressed') === 'true'")?;
        self.until(
            "workers are busy",
            "/ [1-9]\\d* busy now/.test(document.getElementById('timeline').getAttribute('aria-label'))",
        )?;
        self.until("a run is timed", "/a run, median of/.test(document.getElementById('query-note').textContent)")?;
        self.until("its chart has marks", "document.querySelectorAll('#runs-chart .point').length > 0")
    }

    fn changes_the_query(&mut self) -> Result<(), CheckError> {
        self.holds("sets to choose from", "document.querySelectorAll('#query optgroup').length >= 2")?;
        let choose = |group: &str| {
            format!(
                "(() => {{ const query = document.getElementById('query'); \
                 query.value = query.querySelector('optgroup:{group} option').value; \
                 query.dispatchEvent(new Event('change')); return true; }})()"
            )
        };
        // The server is asked for the running queries.
        let runs = "(async () => (await (await fetch('/api/instances')).json()).some(({ query }) => query === document.getElementById('query').value))()";
        for group in ["last-of-type", "first-of-type"] {
            self.holds("it can be chosen", &choose(group))?;
            self.until("it runs", runs)?;
        }
        Ok(())
    }

    fn issues_one(&mut self) -> Result<(), CheckError> {
        let count = "Number(document.querySelector('tr[data-policy=preempt] [data-what=count]').textContent.replaceAll(',', ''))";
        let before = self.page.value(count)?;
        self.page.click("#new-order")?;
        self.until("it is counted", &format!("{count} > {before}"))?;
        self.holds(
            "its latency stands in the table",
            "/\\d (µs|ms|s)$/.test(document.querySelector('tr[data-policy=preempt] [data-what=p99]').textContent)",
        )?;
        self.holds(
            "it is read aloud",
            "/New-Order \\d+ under preempt: [\\d.,]+ (µs|ms|s)\\./.test(document.getElementById('notice').textContent)",
        )?;
        self.holds(
            "the magnifier shows it",
            "/under preempt, on worker \\d+: waited .* ran /.test(document.getElementById('glass-story').textContent)",
        )?;
        self.until("its chart has a mark", "document.querySelectorAll('#latency-chart .point').length > 0")
    }

    fn keeps_a_rate(&mut self) -> Result<(), CheckError> {
        let count = "Number(document.querySelector('tr[data-policy=preempt] [data-what=count]').textContent.replaceAll(',', ''))";
        let before = self.page.value(count)?;
        self.page.click("#rate-toggle")?;
        self.until("it flows", &format!("{count} >= {before} + 20"))?;
        self.picture("running", false)?;
        self.page.click("#rate-toggle")?;
        self.until("it ends", "document.getElementById('rate-toggle').getAttribute('aria-pressed') === 'false'")?;
        self.page
            .value("(() => { const rate = document.getElementById('rate'); rate.value = '1e12'; return 0; })()")?;
        self.page.press("r")?;
        self.holds(
            "a rate out of bounds is refused in words",
            "/may be from 0 to/.test(document.getElementById('notice').textContent)",
        )?;
        self.page.value("(() => { document.getElementById('rate').value = '50'; return 0; })()")?;
        // The browser itself writes a status of 400 to the console.
        self.page.forget_errors();
        Ok(())
    }

    fn compares(&mut self) -> Result<(), CheckError> {
        for (key, policy) in [("1", "wait"), ("2", "yield"), ("3", "preempt")] {
            self.page.press(key)?;
            self.until("it is chosen", &format!("document.body.dataset.policy === '{policy}'"))?;
            self.until(
                "the query goes on under it",
                "document.getElementById('query-toggle').getAttribute('aria-pressed') === 'true'",
            )?;
            self.page.press("r")?;
            // The row may be there from earlier checks; a second key before the page knows of the rate would start it again.
            self.until(
                "the rate has begun",
                "document.getElementById('rate-toggle').getAttribute('aria-pressed') === 'true'",
            )?;
            self.until("it has a row", &format!("Number(document.querySelector('tr[data-policy={policy}] [data-what=count]').textContent.replaceAll(',', '')) >= 40"))?;
            self.page.value("document.querySelector('.stage').scrollIntoView({ block: 'center' })")?;
            self.picture(&format!("running-{policy}"), false)?;
            self.page.press("r")?;
            self.until(
                "the rate has ended",
                "document.getElementById('rate-toggle').getAttribute('aria-pressed') === 'false'",
            )?;
        }
        self.until("three colours in the chart", "new Set([...document.querySelectorAll('#latency-chart .point')].map((point) => point.style.fill)).size === 3")?;
        self.picture("compared", true)
    }

    fn fits_the_first_screen(&mut self) -> Result<(), CheckError> {
        self.page.resize(FIRST_PX.0, FIRST_PX.1)?;
        self.page.value("(() => { document.activeElement.blur(); window.scrollTo(0, 0); return 0; })()")?;
        // An element that is hidden, or empty, has no box, or no text.
        let inside = "(element) => { const box = element.getBoundingClientRect(); \
            return box.width > 0 && box.height > 0 && box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth; }";
        for (what, selector, count) in [
            ("the buttons", "#query-toggle, #new-order, #rate-toggle, #tour, #query, #rate", 6),
            ("the policies", "[data-lane] .name", 3),
            ("the latest latencies", "[data-lane] [data-latest]", 3),
            ("the bars", "[data-lane] [data-bar]", 3),
            ("their figures", "[data-lane] [data-p99]", 3),
            ("the figures on CPU", "[data-lane] [data-beside]", 3),
            ("the verdict", "#verdict", 1),
        ] {
            let all = format!("[...document.querySelectorAll('{selector}')]");
            let shown = format!("{all}.length === {count} && {all}.every({inside})");
            self.holds(&format!("{what} are there without scrolling"), &shown)?;
        }
        self.holds(
            "each policy has a latest latency",
            "[...document.querySelectorAll('[data-latest]')].every((latest) => /\\d (µs|ms|s)$/.test(latest.textContent))",
        )?;
        let sends = "document.getElementById('rate-toggle').getAttribute('aria-pressed')";
        self.page.press("r")?;
        self.until("New-Orders are sent", &format!("{sends} === 'true'"))?;
        self.picture("first-screen", false)?;
        self.page.press("r")?;
        self.until("none is sent", &format!("{sends} === 'false'"))?;
        self.page.resize(LARGE_PX.0, LARGE_PX.1)
    }

    fn agrees_with_its_figures(&mut self) -> Result<(), CheckError> {
        // All is read at once: an update may come between two reads.
        let read = "const us = (text) => { const [, value, unit] = /([\\d.,]+) (µs|ms|s)/.exec(text); \
               return Number(value.replaceAll(',', '')) * { 'µs': 1, ms: 1e3, s: 1e6 }[unit]; }; \
             const of = (policy, part) => document.querySelector(`[data-lane=${policy}] [data-${part}]`); \
             const p99 = (policy) => us(of(policy, 'p99').textContent); \
             const width = (policy) => of(policy, 'bar').getBoundingClientRect().width;";
        self.holds(
            "the verdict is the quotient of the figures beside it",
            &format!(
                "(() => {{ {read} const found = / ([\\d.,]+) times (sooner|later) /.exec(document.getElementById('verdict').textContent); \
                   const [wait, preempt] = [p99('wait'), p99('preempt')]; \
                   const times = preempt <= wait ? wait / preempt : preempt / wait; \
                   if (!found) return times < 1.05; \
                   const told = Number(found[1].replaceAll(',', '')); \
                   return found[2] === (preempt <= wait ? 'sooner' : 'later') && Math.abs(told - times) <= (times < 9.95 ? 0.051 : 0.51); }})()"
            ),
        )?;
        self.holds(
            "the bars have one linear scale",
            &format!(
                "(() => {{ {read} const all = ['wait', 'yield', 'preempt']; \
                   const longest = all.reduce((one, other) => p99(one) < p99(other) ? other : one); \
                   return width(longest) > 200 && all.every((policy) => \
                     Math.abs(width(policy) - Math.max(3, width(longest) * p99(policy) / p99(longest))) < 2); }})()"
            ),
        )?;
        self.holds(
            "lanes and table show the same, raw and on CPU",
            "['wait', 'yield', 'preempt'].every((policy) => { \
               const cell = (what) => document.querySelector(`tr[data-policy=${policy}] [data-what=${what}]`).textContent; \
               const part = (name) => document.querySelector(`[data-lane=${policy}] [data-${name}]`).textContent; \
               return part('p99') === cell('p99') && (cell('p99-on-cpu') === '–' ? part('beside').startsWith('too few on CPU') : \
                 part('beside').startsWith(`on CPU ${cell('p99-on-cpu')} (${cell('share-on-cpu')} of ${cell('count')})`)); })",
        )
    }

    fn hears_keys(&mut self) -> Result<(), CheckError> {
        self.page.press("?")?;
        self.holds("the list of keys", "document.getElementById('keys').open === true")?;
        self.page.press("Escape")?;
        self.holds("it closes", "document.getElementById('keys').open === false")?;
        self.page.press("f")?;
        self.holds(
            "the timeline is frozen",
            "document.getElementById('freeze').getAttribute('aria-pressed') === 'true'",
        )?;
        self.page.press("f")?;
        self.page.value("document.getElementById('rate').focus()")?;
        self.page.press("1")?;
        self.holds("a digit in a field chooses nothing", "document.body.dataset.policy === 'preempt'")?;
        self.page.value(
            "(() => { document.activeElement.blur(); document.getElementById('rate').value = '50'; return 0; })()",
        )?;
        self.page.press("n")?;
        self.until(
            "n sends one",
            "/New-Order \\d+ under preempt/.test(document.getElementById('notice').textContent)",
        )?;
        self.page.press("Tab")?;
        self.holds(
            "focus is visible",
            "document.activeElement !== document.body && document.activeElement.matches(':focus-visible')",
        )
    }

    fn tours(&mut self) -> Result<(), CheckError> {
        let pressed = |id: &str| format!("document.getElementById('{id}').getAttribute('aria-pressed') === 'true'");
        self.page.press("t")?;
        self.until(
            "wait under load",
            &format!("document.body.dataset.policy === 'wait' && {}", pressed("rate-toggle")),
        )?;
        self.holds("it says that it runs", &pressed("tour"))?;
        self.page.press("t")?;
        let none = ["tour", "rate-toggle", "query-toggle"].map(|id| format!("!({})", pressed(id))).join(" && ");
        self.until("nothing runs", &none)?;
        self.page.press("3")?;
        self.until("3 chooses preempt", "document.body.dataset.policy === 'preempt'")?;
        self.page.press("q")?;
        self.until("the query runs again", &pressed("query-toggle"))
    }

    fn changes_theme(&mut self) -> Result<(), CheckError> {
        let ground = "getComputedStyle(document.body).backgroundColor";
        let light = self.page.value(ground)?;
        self.page.prefer("prefers-color-scheme", "dark")?;
        self.holds("the system's wish is followed", &format!("{ground} !== {light}"))?;
        self.picture("dark", true)?;
        self.page.press("d")?;
        self.holds("d overrules it", &format!("{ground} === {light}"))?;
        self.page.prefer("prefers-color-scheme", "light")
    }

    fn fits_small(&mut self) -> Result<(), CheckError> {
        self.page.resize(SMALL_PX.0, SMALL_PX.1)?;
        self.holds("nothing overflows", "document.documentElement.scrollWidth <= 360")?;
        self.holds(
            "the controls can be reached",
            "document.getElementById('new-order').getBoundingClientRect().right <= 360",
        )?;
        self.picture("small", true)?;
        self.page.resize(LARGE_PX.0, LARGE_PX.1)
    }

    fn stops(&mut self) -> Result<(), CheckError> {
        self.page.press("q")?;
        self.until(
            "the query stops",
            "document.getElementById('query-toggle').getAttribute('aria-pressed') === 'false'",
        )?;
        self.until(
            "workers are idle",
            "/ 0 busy now/.test(document.getElementById('timeline').getAttribute('aria-label'))",
        )?;
        self.page.press("c")?;
        self.until(
            "the table is empty",
            "[...document.querySelectorAll('[data-what=count]')].every((cell) => cell.textContent === '0')",
        )?;
        self.until("the chart is empty and says why", "!document.getElementById('latency-empty').hidden && document.getElementById('latency-chart').childElementCount === 0")
    }
}
