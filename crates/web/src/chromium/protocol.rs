//! The DevTools protocol on one WebSocket: numbered calls, and events that arrive in between.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket, client};

use super::CheckError;

/// Time limit of a call. Conditions in the page have shorter limits of their own.
const ANSWER_S_MAX: u64 = 120;

/// Connection to the browser.
pub struct Connection {
    socket: WebSocket<TcpStream>,
    last_id: u64,
    errors: Vec<String>,
}

impl Connection {
    /// Connects to `ws://host:port/path`.
    pub fn open(address: &str) -> Result<Connection, CheckError> {
        let rest =
            address.strip_prefix("ws://").ok_or_else(|| CheckError::Browser(format!("no address: {address}")))?;
        let host = rest.split('/').next().unwrap_or(rest);
        let stream = TcpStream::connect(host).map_err(CheckError::browser)?;
        let (socket, _) = client(address, stream).map_err(CheckError::browser)?;
        socket.get_ref().set_read_timeout(Some(Duration::from_secs(ANSWER_S_MAX))).map_err(CheckError::browser)?;
        Ok(Connection { socket, last_id: 0, errors: Vec::new() })
    }

    /// Sends a command and returns its result; records the errors that pages report meanwhile.
    pub fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Result<Value, CheckError> {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(command.to_string())).map_err(CheckError::browser)?;
        loop {
            let Message::Text(text) = self.read()? else { continue };
            let mut message: Value = serde_json::from_str(&text).map_err(CheckError::browser)?;
            if message["id"] == self.last_id {
                if let Some(error) = message.get("error") {
                    return Err(CheckError::Browser(format!("{method}: {error}")));
                }
                return Ok(message["result"].take());
            }
            self.note(&message);
        }
    }

    /// Reads the next message. A read with a timeout is one of the calls that the kernel does not restart after a
    /// signal, and the tests of this workspace run under a storm of signals.
    fn read(&mut self) -> Result<Message, CheckError> {
        let began = Instant::now();
        loop {
            match self.socket.read() {
                Err(tungstenite::Error::Io(error))
                    if error.kind() == ErrorKind::Interrupted && began.elapsed().as_secs() < ANSWER_S_MAX => {}
                result => return result.map_err(CheckError::browser),
            }
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                let details = &params["exceptionDetails"];
                details["exception"]["description"].as_str().or(details["text"].as_str()).map(str::to_owned)
            }
            Some("Runtime.consoleAPICalled") if matches!(params["type"].as_str(), Some("error" | "assert")) => {
                Some(params["args"].to_string())
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                Some(format!("{} {}", params["entry"]["text"], params["entry"]["url"]))
            }
            _ => None,
        };
        self.errors.extend(error);
    }

    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    pub fn forget_errors(&mut self) {
        self.errors.clear();
    }
}
