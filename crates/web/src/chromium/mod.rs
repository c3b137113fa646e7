//! A headless Chromium for tests: start it, open the page, press keys, read what it shows.
//!
//! **Invariant:** all waiting happens in the browser, with a limit, never here: a condition is a promise that the page
//! itself resolves. Console errors and uncaught exceptions are collected from the first load on; [`Page::errors`]
//! returns them. This module speaks the DevTools protocol over one WebSocket, with the few commands that the checks
//! need: the crates that wrap the whole protocol generate tens of thousands of lines.

mod protocol;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use protocol::Connection;

/// Reason for which a check could not run or did not pass.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No Chromium is installed: skip loudly, or fail where a skip is not allowed.
    #[error("no Chromium found (looked for $OVERTAKE_CHROMIUM, chromium, chromium-browser, google-chrome)")]
    Missing,
    /// The browser could not be started, or the connection to it failed.
    #[error("the browser: {0}")]
    Browser(String),
    /// The page does not meet the check.
    #[error("{0}")]
    Page(String),
}

impl CheckError {
    fn browser(error: impl std::fmt::Display) -> CheckError {
        CheckError::Browser(error.to_string())
    }
}

/// A browser process with an empty profile; it ends when the value is dropped.
pub struct Browser {
    child: Child,
    _profile: TempDir,
    connection: Option<Connection>,
}

impl Browser {
    /// Starts the installed Chromium.
    ///
    /// # Errors
    /// [`CheckError::Missing`] when none is installed.
    pub fn start() -> Result<Browser, CheckError> {
        let program = find().ok_or(CheckError::Missing)?;
        let profile = tempfile::Builder::new().prefix("overtake-chromium-").tempdir().map_err(CheckError::browser)?;
        let child = Command::new(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .args(["--remote-debugging-port=0", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(CheckError::browser)?;
        let mut browser = Browser { child, _profile: profile, connection: None };
        let stderr = browser.child.stderr.take().expect("stderr is piped");
        let mut lines = BufReader::new(stderr).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("DevTools listening on ").map(str::to_owned))
            .ok_or_else(|| CheckError::Browser("it ended before it listened".to_owned()))?;
        // Drained to the end: a full pipe would stop the browser.
        thread::spawn(move || lines.for_each(drop));
        browser.connection = Some(Connection::open(&address)?);
        Ok(browser)
    }

    /// Opens an empty page.
    ///
    /// # Errors
    /// [`CheckError::Browser`].
    pub fn page(&mut self) -> Result<Page<'_>, CheckError> {
        let connection = self.connection.as_mut().expect("start has made it");
        let target = connection.call(None, "Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached = connection.call(
            None,
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        )?;
        let session =
            attached["sessionId"].as_str().ok_or_else(|| CheckError::Browser("no session".to_owned()))?.to_owned();
        let mut page = Page { connection, session };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            page.call(domain, json!({}))?;
        }
        Ok(page)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.connection {
            // Asked first, so that the browser's own child processes end too; then killed, in case it does not.
            let _ = connection.call(None, "Browser.close", json!({}));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns true if a Chromium is installed.
pub fn is_installed() -> bool {
    find().is_some()
}

fn find() -> Option<PathBuf> {
    if let Some(program) = env::var_os("OVERTAKE_CHROMIUM") {
        return Some(PathBuf::from(program));
    }
    let path = env::var_os("PATH")?;
    ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}

/// A browser tab.
pub struct Page<'a> {
    connection: &'a mut Connection,
    session: String,
}

impl Page<'_> {
    fn call(&mut self, method: &str, params: Value) -> Result<Value, CheckError> {
        self.connection.call(Some(&self.session), method, params)
    }

    /// Loads an address.
    ///
    /// # Errors
    /// [`CheckError::Page`] when the address cannot be reached.
    pub fn open(&mut self, url: &str) -> Result<(), CheckError> {
        let answer = self.call("Page.navigate", json!({ "url": url }))?;
        match answer["errorText"].as_str() {
            Some(text) => Err(CheckError::Page(format!("{url}: {text}"))),
            None => Ok(()),
        }
    }

    /// Returns the value of an expression; a promise is awaited.
    ///
    /// # Errors
    /// [`CheckError::Page`] when the expression throws.
    pub fn value(&mut self, expression: &str) -> Result<Value, CheckError> {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let mut answer = self.call("Runtime.evaluate", params)?;
        if let Some(details) = answer.get("exceptionDetails") {
            let text =
                details["exception"]["description"].as_str().or(details["text"].as_str()).unwrap_or("an exception");
            return Err(CheckError::Page(format!("{expression}: {text}")));
        }
        Ok(answer["result"]["value"].take())
    }

    /// Waits until an expression has become true.
    ///
    /// # Errors
    /// [`CheckError::Page`] after `limit_ms`, with the expression's last value and all console errors.
    pub fn until(&mut self, what: &str, expression: &str, limit_ms: u64) -> Result<(), CheckError> {
        let script = format!(
            "new Promise((done) => {{ const end = Date.now() + {limit_ms}; let last; const look = async () => {{ \
               try {{ last = await ({expression}); }} catch (error) {{ last = String(error); }} \
               if (last === true) done(null); else if (Date.now() > end) done(String(last)); else setTimeout(look, 20); }}; look(); }})"
        );
        match self.value(&script)? {
            Value::Null => Ok(()),
            last => Err(CheckError::Page(format!(
                "{what}: not within {limit_ms} ms, last {last}; console: {:?}",
                self.errors()
            ))),
        }
    }

    /// Presses and releases a key, as a keyboard would.
    ///
    /// # Errors
    /// [`CheckError::Browser`].
    pub fn press(&mut self, key: &str) -> Result<(), CheckError> {
        let text = if key.chars().count() == 1 { key } else { "" };
        let (code, number) = match key {
            "Tab" => ("Tab", 9),
            "Escape" => ("Escape", 27),
            "ArrowRight" => ("ArrowRight", 39),
            _ => ("", 0),
        };
        let params = |kind: &str| json!({ "type": kind, "key": key, "text": if kind == "keyDown" { text } else { "" }, "code": code, "windowsVirtualKeyCode": number });
        self.call("Input.dispatchKeyEvent", params("keyDown"))?;
        self.call("Input.dispatchKeyEvent", params("keyUp"))?;
        Ok(())
    }

    /// Clicks the middle of the element that a selector finds.
    ///
    /// # Errors
    /// [`CheckError::Page`] when there is no such element, or something else lies on top of it.
    pub fn click(&mut self, selector: &str) -> Result<(), CheckError> {
        let place = self.value(&format!(
            "(() => {{ const found = document.querySelector({selector:?}); if (!found) return 'nothing'; \
               found.scrollIntoView({{ block: 'center', behavior: 'instant' }}); const box = found.getBoundingClientRect(); \
               const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]; const top = document.elementFromPoint(x, y); \
               return found === top || found.contains(top) || top?.closest('label')?.contains(found) ? [x, y] : 'covered by ' + top?.outerHTML?.slice(0, 80); }})()"
        ))?;
        let (Some(x), Some(y)) = (place[0].as_f64(), place[1].as_f64()) else {
            return Err(CheckError::Page(format!("cannot click {selector}: {place}")));
        };
        for kind in ["mousePressed", "mouseReleased"] {
            self.call(
                "Input.dispatchMouseEvent",
                json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 }),
            )?;
        }
        Ok(())
    }

    /// Sets the window's size in CSS pixels.
    ///
    /// # Errors
    /// [`CheckError::Browser`].
    pub fn resize(&mut self, width: u32, height: u32) -> Result<(), CheckError> {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", params).map(drop)
    }

    /// Sets a preference of the reader: `prefers-color-scheme`, `prefers-reduced-motion`.
    ///
    /// # Errors
    /// [`CheckError::Browser`].
    pub fn prefer(&mut self, feature: &str, value: &str) -> Result<(), CheckError> {
        self.call("Emulation.setEmulatedMedia", json!({ "features": [{ "name": feature, "value": value }] })).map(drop)
    }

    /// Writes a picture of the whole page, or of the window alone.
    ///
    /// # Errors
    /// [`CheckError::Browser`].
    pub fn screenshot(&mut self, file: &Path, whole: bool) -> Result<(), CheckError> {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": whole }))?;
        let data = answer["data"].as_str().ok_or_else(|| CheckError::Browser("no picture".to_owned()))?;
        let png = data_encoding::BASE64.decode(data.as_bytes()).map_err(CheckError::browser)?;
        fs::write(file, png).map_err(CheckError::browser)
    }

    /// Returns the console errors and uncaught exceptions so far.
    pub fn errors(&self) -> &[String] {
        self.connection.errors()
    }

    /// Forgets the errors, for checks that end a server on purpose.
    pub fn forget_errors(&mut self) {
        self.connection.forget_errors();
    }
}
