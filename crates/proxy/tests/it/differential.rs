//! The same messages are sent to the server itself and to the proxy, with other clients between: the answers are equal.

use crate::support::Front;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;
use wirekit::raw::{Raw, bind, execute, message, named, parse, query, sync};

/// Number of scripts of a client.
const SCRIPTS: u64 = 60;
const CLIENTS: u64 = 4;

/// Small generator: all choices depend on the seed only.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.roll(of.len() as u64)).unwrap()].clone()
    }
}

const TEXTS: &[&str] = &[
    "begin",
    "commit",
    "rollback",
    "select 1",
    "select $1::int + 1",
    "select 1/$1::int",
    "select generate_series(1, 5)",
    "select nothing",
    "select 1 from t where false for update",
    "syntax error",
    "",
    "insert into t values ($1::int)",
    "show work_mem",
    "select coalesce(current_setting('app.x', true), '')",
];

const QUERIES: &[&str] = &[
    "begin",
    "begin",
    "commit",
    "commit",
    "rollback",
    "select 1; select 2",
    "select 1/0",
    "savepoint s",
    "rollback to s",
    "set work_mem = '5MB'",
    "set local work_mem = '6MB'",
    "reset work_mem",
    "set datestyle = 'German'",
    "set search_path = a, public",
    "set app.x = '1'",
    "select current_date = current_date, current_setting('work_mem'), current_setting('search_path')",
    "discard all",
    "deallocate all",
    "create temp table x (a int)",
    "drop table x",
    "prepare p as select 3",
    "execute p",
    "deallocate p",
    "select pg_advisory_lock(7) is null, pg_advisory_unlock(7)",
    "declare c cursor with hold for select 1",
    "close c",
    "insert into t values (1); select 1/0",
    "copy t from stdin",
    "copy (select generate_series(1, 3)) to stdout",
    "",
];

fn script(dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    // The unnamed statement is used in whole batches only: it is lost if the server has ignored a message that was to
    // replace it.
    let name = |dice: &mut Dice| dice.one(&["s1", "s2", "s3"]);
    for _ in 0..dice.roll(30) + 5 {
        all.push(match dice.roll(14) {
            0 | 1 => query(dice.one(QUERIES)),
            2 | 3 => parse(name(dice), dice.one(TEXTS), &[]),
            4 | 5 => {
                let value: &[u8] = dice.one(&[&b"1"[..], b"0", b"x"]);
                let values = [Some(value)];
                bind(dice.one(&["", "p1"]), name(dice), &[], &values[..usize::from(dice.roll(2) == 0)], &[])
            }
            6 => execute(dice.one(&["", "p1"]), i32::try_from(dice.roll(3)).unwrap()),
            7 => named(b'D', dice.one(b"SP"), name(dice)),
            8 => named(b'C', dice.one(b"SP"), name(dice)),
            9 => message(b'H', b""),
            10 => [message(b'd', b"1\n"), message(b'c', b"")].concat(),
            11 => {
                let value = [Some(&b"1"[..])];
                let (text, name) = (dice.one(TEXTS), dice.one(&["", "", "s1", "s2", "s3"]));
                [
                    parse(name, text, &[]),
                    bind("", name, &[], &value[..usize::from(text.contains('$'))], &[]),
                    execute("", 0),
                    sync(),
                ]
                .concat()
            }
            _ => sync(),
        });
    }
    // Whatever was under way ends.
    all.push([message(b'f', b"no\0"), sync(), query("rollback"), query("discard all"), sync()].concat());
    all
}

fn run(address: SocketAddr, script: &[Vec<u8>]) -> Vec<String> {
    let mut raw = Raw::connect(address);
    raw.start(&[("user", "postgres")]);
    for part in script {
        raw.send(part);
    }
    raw.send(&message(b'X', b""));
    let mut all = Vec::new();
    for next in raw {
        // The position in its source at which the server has found an error does not matter.
        let next = next.split("|F").next().unwrap().trim_end_matches(')');
        let is_error = next.starts_with('E');
        all.push(match next.split_once("unexpected message type") {
            // The unexpected message in a COPY may be one that the proxy has sent before the client's.
            Some((before, _)) => before.to_owned(),
            // Of two names of one statement the proxy may report the other one. In a failed transaction, a statement
            // that cannot be brought to the connection is refused before its name is.
            None if next.contains("|42P05|") || next.contains("|25P02|") => "refused".to_owned(),
            None if is_error => next.replace("\"s2\"", "\"s1\"").replace("\"s3\"", "\"s1\""),
            None => next.to_owned(),
        });
    }
    all
}

pub fn the_front_says_what_the_server_says() {
    compare(Front::new(2));
}

pub fn so_it_does_of_what_it_prepares() {
    compare(Front::preparing(2));
}

fn compare(front: Option<Front>) {
    let Some(front) = front else { return };
    front.cluster.ask("create table t (a int); create schema a");
    // Another seed makes other scripts.
    let base: u64 = std::env::var("OVERTAKE_SEED").map_or(0, |seed| seed.parse().unwrap());
    let server: SocketAddr = ([127, 0, 0, 1], front.cluster.port).into();
    std::thread::scope(|scope| {
        for client in 1..=CLIENTS {
            let address = front.address;
            scope.spawn(move || {
                for number in 1..=SCRIPTS {
                    let seed = base + client * 1_000_003 + number * 7_919;
                    let script = script(&mut Dice(seed));
                    let (wanted, found) = (run(server, &script), run(address, &script));
                    if wanted != found {
                        let shown: Vec<_> =
                            script.iter().map(|part| String::from_utf8_lossy(part).replace('\0', "~")).collect();
                        let at = wanted.iter().zip(&found).take_while(|(one, other)| one == other).count();
                        let (wanted, found) = (&wanted[at.saturating_sub(6)..], &found[at.saturating_sub(6)..]);
                        panic!("seed {seed}: at {at}\n{shown:?}\n{wanted:?}\n{found:?}");
                    }
                }
            });
        }
    });
    front.all_idle();
}

/// Scripts with changed and cut bytes, sent in pieces: nothing panics, and other clients get their answers.
pub fn garbage_harms_nobody() {
    let Some(front) = Front::new(2) else { return };
    front.cluster.ask("create table t (a int); create schema a");
    let panics = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&panics);
    std::panic::set_hook(Box::new(move |info| {
        eprintln!("{info}");
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }));
    let mut good = front.raw();
    for seed in 1..=300 {
        let mut dice = Dice(seed * 2_654_435_761);
        let mut bytes = script(&mut dice).concat();
        for _ in 0..dice.roll(8) {
            let at = usize::try_from(dice.roll(bytes.len() as u64)).unwrap();
            match dice.roll(3) {
                0 => bytes[at] ^= 1 << dice.roll(8),
                1 => bytes.truncate(at + 1),
                _ => bytes[at] = u8::try_from(dice.roll(256)).unwrap(),
            }
        }
        let mut bad = front.raw();
        let cut = usize::try_from(dice.roll(bytes.len() as u64)).unwrap();
        // The proxy may have closed the connection in between.
        let _ = bad.stream.write_all(&bytes[..cut]);
        if dice.roll(2) == 0 {
            std::thread::yield_now();
        }
        let _ = bad.stream.write_all(&bytes[cut..]);
        if dice.roll(2) == 0 {
            let _ = bad.stream.write_all(&message(b'X', b""));
            // The message may be the end of another one.
            bad.stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            let _ = bad.stream.read(&mut [0; 1_000]);
        }
        drop(bad);
        assert_eq!(good.ask(&query("select 1 as a")), "T(a:23:0) D(1) C(SELECT 1) Z(I)", "{seed}");
    }
    assert_eq!(panics.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert!(front.all_idle() <= 2);
}
