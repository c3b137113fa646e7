//! Server that gives scripted answers, and has no data.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use wirekit::raw::{PATIENCE, message};

/// Code of a `CancelRequest`.
const CANCEL: i32 = 80_877_102;

/// Role that the server reports.
#[derive(Clone, Copy)]
pub struct Role {
    pub is_standby: bool,
    pub timeline: u32,
    /// True if it refuses all logins.
    pub is_down: bool,
    /// True if it has no room for anybody.
    pub is_full: bool,
}

pub const PRIMARY: Role = Role { is_standby: false, timeline: 1, is_down: false, is_full: false };
pub const STANDBY: Role = Role { is_standby: true, ..PRIMARY };
pub const DOWN: Role = Role { is_down: true, ..PRIMARY };
pub const FULL: Role = Role { is_full: true, ..PRIMARY };

struct State {
    role: Mutex<Role>,
    streams: Mutex<Vec<TcpStream>>,
    /// Number of connections that it has refused because it was full.
    refused: AtomicUsize,
    /// Number of the last session.
    last: AtomicI32,
    /// Cancels that have arrived: the session, and the connection that has brought it.
    cancels: Mutex<Vec<(i32, TcpStream)>>,
    has_come: Condvar,
    /// Number of statements that wait for one.
    waiting: AtomicUsize,
    /// True if its roles have a `statement_timeout`.
    limits_roles: AtomicBool,
}

pub struct Fake {
    pub port: u16,
    state: Arc<State>,
}

fn row(values: &[Option<&str>]) -> Vec<u8> {
    let mut columns = u16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
    let mut row = columns.clone();
    for value in values {
        columns.extend([&b"c\0"[..], &[0; 6], &25_u32.to_be_bytes(), &[0xff; 6], &[0; 2]].concat());
        match value {
            Some(value) => {
                row.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
                row.extend(value.as_bytes());
            }
            None => row.extend((-1_i32).to_be_bytes()),
        }
    }
    [message(b'T', &columns), message(b'D', &row)].concat()
}

fn tag(text: &str) -> Vec<u8> {
    message(b'C', format!("{text}\0").as_bytes())
}

fn error(severity: &str, code: &str) -> Vec<u8> {
    message(b'E', format!("S{severity}\0V{severity}\0C{code}\0Mit is so\0\0").as_bytes())
}

/// First half of a row, and of a notice and an error of this many bytes.
pub fn half(kind: u8, length: usize) -> Vec<u8> {
    let body = if kind == b'D' { [&[0, 1, 0, 0, 0, 100][..], &[b'x'; 100]].concat() } else { vec![b'x'; length] };
    let mut whole = message(kind, &body);
    whole.truncate(whole.len() / 2);
    if kind == b'D' { [row(&[Some("y")]), whole].concat() } else { whole }
}

impl Fake {
    pub fn new(role: Role) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            role: Mutex::new(role),
            streams: Mutex::default(),
            refused: AtomicUsize::new(0),
            last: AtomicI32::new(0),
            cancels: Mutex::default(),
            has_come: Condvar::new(),
            waiting: AtomicUsize::new(0),
            limits_roles: AtomicBool::new(false),
        });
        let own = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                own.streams.lock().unwrap().push(stream.try_clone().unwrap());
                let state = Arc::clone(&own);
                let number = state.last.fetch_add(1, SeqCst) + 1;
                let session = Session {
                    stream,
                    state,
                    port,
                    number,
                    status: b'I',
                    has_deadline: false,
                    has_memory: false,
                    listens: false,
                };
                std::thread::spawn(move || session.serve());
            }
        });
        Fake { port, state }
    }

    /// Changes the role from now on. Existing sessions stay.
    pub fn is(&self, role: Role) {
        *self.state.role.lock().unwrap() = role;
    }

    /// Gives its roles a `statement_timeout`.
    pub fn limit_roles(&self) {
        self.state.limits_roles.store(true, SeqCst);
    }

    pub fn refused(&self) -> usize {
        self.state.refused.load(SeqCst)
    }

    /// True if a statement is under way that waits for a cancel.
    pub fn waits(&self) -> bool {
        0 < self.state.waiting.load(SeqCst)
    }

    /// Closes the connections of the cancels that have arrived, like a server that has signalled.
    pub fn ends_cancels(&self) {
        for (_, mut stream) in self.state.cancels.lock().unwrap().drain(..) {
            stream.read_exact(&mut [0; 4]).unwrap();
        }
    }

    /// Resets the connections of the cancels that have arrived: a reset tells that not everything was read.
    pub fn loses_cancels(&self) {
        let cancels = self.state.cancels.lock().unwrap();
        let (mut cancels, _) =
            self.state.has_come.wait_timeout_while(cancels, PATIENCE, |cancels| cancels.is_empty()).unwrap();
        assert_ne!(cancels.drain(..).count(), 0, "no cancel has come");
    }

    /// Ends all connections, without a message.
    pub fn cut(&self) {
        self.state.streams.lock().unwrap().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

struct Session {
    stream: TcpStream,
    state: Arc<State>,
    port: u16,
    number: i32,
    status: u8,
    /// True if it has a `statement_timeout`.
    has_deadline: bool,
    /// True if it has a `work_mem` of its own.
    has_memory: bool,
    listens: bool,
}

impl Session {
    fn exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn length(&mut self) -> Option<usize> {
        let length = self.exactly(4)?;
        Some(u32::from_be_bytes(length.try_into().ok()?) as usize - 4)
    }

    fn serve(mut self) {
        let number = |bytes: Vec<u8>| i32::from_be_bytes(bytes.try_into().unwrap());
        let code = self.length().zip(self.exactly(4).map(number));
        if let Some((12, CANCEL)) = code {
            let Some(of) = self.exactly(4).map(number) else { return };
            let own = self.stream.peer_addr().unwrap();
            self.state.streams.lock().unwrap().retain(|stream| stream.peer_addr().ok() != Some(own));
            self.state.cancels.lock().unwrap().push((of, self.stream));
            self.state.has_come.notify_all();
            return;
        }
        // The client may have gone, so errors are ignored.
        let _ = code.and_then(|(length, _)| self.session(length - 4));
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Serves the session, with this many bytes of the first message still to come.
    fn session(&mut self, rest: usize) -> Option<()> {
        self.exactly(rest)?;
        let role = *self.state.role.lock().unwrap();
        if role.is_down {
            return self.stream.write_all(&error("FATAL", "57P03")).ok();
        }
        if role.is_full {
            let said = self.stream.write_all(&error("FATAL", "53300"));
            self.state.refused.fetch_add(1, SeqCst);
            return said.ok();
        }
        let hot = if role.is_standby { "on" } else { "off" };
        let said = [("server_version", "15.0"), ("client_encoding", "UTF8"), ("in_hot_standby", hot)]
            .map(|(name, value)| message(b'S', format!("{name}\0{value}\0").as_bytes()));
        let key = message(b'K', &[self.number.to_be_bytes(), [0; 4]].concat());
        self.stream.write_all(&[message(b'R', &[0; 4]), said.concat(), key, message(b'Z', b"I")].concat()).ok()?;
        let mut text = String::new();
        loop {
            let kind = self.exactly(1)?[0];
            let length = self.length()?;
            let body = self.exactly(length)?;
            let out = match kind {
                b'Q' => {
                    text = String::from_utf8_lossy(body.strip_suffix(b"\0").unwrap_or(&body)).into_owned();
                    if text.contains("lost") {
                        return None;
                    }
                    if text == "sleep" {
                        // The statement lasts to the end of the connection.
                        continue;
                    }
                    if text == "until cancelled" {
                        let others = |cancels: &mut Vec<(i32, TcpStream)>| {
                            cancels.iter().all(|&(number, _)| number != self.number)
                        };
                        self.state.waiting.fetch_add(1, SeqCst);
                        let cancels = self.state.cancels.lock().unwrap();
                        drop(self.state.has_come.wait_timeout_while(cancels, PATIENCE, others).unwrap());
                        self.state.waiting.fetch_sub(1, SeqCst);
                    }
                    let mut said = self.query(&text);
                    if !text.starts_with("half ") {
                        said.extend(message(b'Z', &[self.status]));
                    }
                    if text == "last" {
                        // The answer and the end are sent in one write.
                        return self.stream.write_all(&[said, error("FATAL", "57P01")].concat()).ok();
                    }
                    said
                }
                b'P' => {
                    text += &String::from_utf8_lossy(&body);
                    message(b'1', b"")
                }
                b'B' => message(b'2', b""),
                b'D' => message(b'n', b""),
                b'C' => message(b'3', b""),
                b'E' if text.ends_with("\0begin\0\0\0") => {
                    text.clear();
                    self.status = b'T';
                    tag("BEGIN")
                }
                b'E' if text.contains("lost") => return None,
                b'E' => tag("INSERT 0 1"),
                b'S' => {
                    text.clear();
                    message(b'Z', &[self.status])
                }
                _ => return None,
            };
            self.stream.write_all(&out).ok()?;
        }
    }

    fn query(&mut self, text: &str) -> Vec<u8> {
        let role = *self.state.role.lock().unwrap();
        let is_standby = if role.is_standby { "t" } else { "f" };
        let timeline = format!("{:08X}", role.timeline);
        match text {
            text if text.starts_with("SELECT pg_catalog.pg_is_in_recovery(), ") => {
                let timeline = (!role.is_standby).then_some(&*timeline);
                [row(&[Some(is_standby), timeline, Some("7"), Some("0")]), tag("SELECT 1")].concat()
            }
            "SELECT pg_catalog.pg_is_in_recovery()" => [row(&[Some(is_standby)]), tag("SELECT 1")].concat(),
            // The question for the state of the session.
            text if text.starts_with("SELECT 's'") && self.has_deadline => {
                [row(&[Some("s"), Some("statement_timeout"), Some("1")]), tag("SELECT 1")].concat()
            }
            text if text.starts_with("SELECT 's'") && self.has_memory => {
                [row(&[Some("s"), Some("work_mem"), Some("1")]), tag("SELECT 1")].concat()
            }
            text if text.starts_with("SELECT 's'") && self.listens => {
                [row(&[Some("h"), Some("listen"), None]), tag("SELECT 1")].concat()
            }
            text if text.starts_with("SELECT 's'") => [message(b'T', &[0, 0]), tag("SELECT 0")].concat(),
            // The time limit is too short for any statement.
            text if text.contains("RESET \"statement_timeout\"") && self.has_deadline => error("ERROR", "57014"),
            text if text.contains("FROM pg_catalog.pg_roles r") && self.state.limits_roles.load(SeqCst) => {
                [row(&[Some("1"), Some("t"), None, Some("f"), None, Some("t")]), tag("SELECT 1")].concat()
            }
            text if text.contains("RESET \"work_mem\"") => {
                let is_limited = self.state.limits_roles.load(SeqCst);
                if is_limited && !text.starts_with("SET LOCAL statement_timeout = 0; ") {
                    return error("ERROR", "57014");
                }
                self.has_memory = false;
                tag("RESET")
            }
            "set work_mem = 1" => {
                self.has_memory = true;
                tag("SET")
            }
            "set statement_timeout = 1" => {
                self.has_deadline = true;
                tag("SET")
            }
            "listen a" => {
                self.listens = true;
                tag("LISTEN")
            }
            "half a row" => half(b'D', 0),
            "half a notice" => half(b'N', 1 << 20),
            "half an error" => half(b'E', 1 << 20),
            "half a long error" => half(b'E', 64 << 20),
            "number" => [row(&[Some(&self.number.to_string())]), tag("SELECT 1")].concat(),
            "who" => [row(&[Some(&self.port.to_string())]), tag("SELECT 1")].concat(),
            "write" if role.is_standby => error("ERROR", "25006"),
            "begin" | "begin; select 1" => {
                self.status = b'T';
                tag("BEGIN")
            }
            "commit" | "rollback" | "ROLLBACK" => {
                self.status = b'I';
                tag(&text.to_uppercase())
            }
            _ => tag("INSERT 0 1"),
        }
    }
}
