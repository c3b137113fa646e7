//! Random, truncated and reordered messages: an error or a closed connection, never a panic, a hang or a leak.

use crate::real::Real;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use wirekit::raw::{PATIENCE, Raw, bind, execute, message, named, parse, query, startup, sync};

const ROUNDS: usize = 3000;

/// Random numbers by xorshift64, so that the rounds are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 32).unwrap() % bound
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }

    fn message(&mut self, texts: &[&str]) -> Vec<u8> {
        let names = ["", "a", "b"];
        let (name, other, text) = (self.of(&names), self.of(&names), self.of(texts));
        match self.below(11) {
            0 => query(text),
            1 => parse(name, text, &[[23, 25][self.below(2)]]),
            2 => {
                let value = self.bytes(5);
                let value = [None, Some(&value[..])][self.below(2)];
                bind(name, other, &[0, 1, 2][..self.below(3)], &[value; 2][..self.below(3)], &[1][..self.below(2)])
            }
            3 => named(b'D', *self.of(&[&b'S', &b'P', &b'x']), name),
            4 => named(b'C', *self.of(&[&b'S', &b'P', &b'x']), name),
            5 | 6 => execute(name, i32::try_from(self.below(4)).unwrap() - 1),
            7 | 8 => sync(),
            9 => message(*self.of(&[&b'H', &b'd', &b'c', &b'f', &b'F']), &self.bytes(6)),
            _ => {
                let kind = *self.of(&[&b'Q', &b'P', &b'B', &b'D', &b'E', &b'C', &b'S']);
                message(kind, &self.bytes(30))
            }
        }
    }

    /// Returns the messages of one client.
    fn conversation(&mut self, texts: &[&str]) -> Vec<u8> {
        let mut all: Vec<u8> = (0..1 + self.below(12)).flat_map(|_| self.message(texts)).collect();
        if self.below(3) == 0 {
            for _ in 0..1 + self.below(4) {
                let at = self.below(all.len());
                all[at] = u8::try_from(self.below(256)).unwrap();
            }
        }
        if self.below(4) == 0 {
            all.truncate(self.below(all.len() + 1));
        }
        all
    }
}

/// Sends the bytes, and reads to the end.
fn converse(mut client: Raw<TcpStream>, bytes: &[u8]) {
    // The server may have closed already.
    let _ = client.stream.write_all(bytes);
    let _ = client.stream.shutdown(Shutdown::Write);
    let mut rest = vec![];
    if let Err(error) = client.stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "a hang");
    }
}

/// Texts of statements.
const TEXTS: [&str; 30] = [
    "select 1",
    "select 1; select 2; select 3",
    "select $1::int4 + 1",
    "select $1, $2::text",
    "select * from fuzzed order by id",
    "select id from fuzzed for update",
    "insert into fuzzed values ($1, $2)",
    "insert into fuzzed select n, 'x' from generate_series(1, 50) n on conflict do nothing",
    "update fuzzed set t = t || 'y' where id < 20",
    "delete from fuzzed where id % 3 = 0",
    "begin",
    "begin isolation level serializable",
    "commit",
    "rollback",
    "savepoint a",
    "rollback to a",
    "copy fuzzed from stdin",
    "copy fuzzed from stdin (format binary)",
    "copy fuzzed to stdout",
    "declare b cursor for select * from fuzzed",
    "fetch 2 from b",
    "prepare a as select 1",
    "execute a",
    "deallocate all",
    "create table made_by_a_client (id int)",
    "drop table if exists made_by_a_client",
    "select 1 / 0",
    "select pg_cancel_backend(pg_backend_pid())",
    "selec",
    "",
];

/// Counts panics from now on.
fn panics() -> &'static AtomicUsize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, SeqCst);
        report(info);
    }));
    &PANICS
}

/// Runs one client, now and then one without a session, whose first packet is broken too.
fn client(random: &mut Random, address: SocketAddr, round: usize, texts: &[&str]) {
    let mut raw = Raw::connect(address);
    let who = [("user", "postgres"), ("database", "postgres")];
    let mut bytes = Vec::new();
    if round.is_multiple_of(4) {
        bytes = startup(3 << 16, &who);
        let at = random.below(bytes.len());
        bytes[at] = u8::try_from(random.below(256)).unwrap();
    } else {
        raw.start(&who);
    }
    bytes.extend(random.conversation(texts));
    converse(raw, &bytes);
}

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_ascii_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Sessions leave no transaction, lock or memory behind, and the others go on.
pub fn garbage_harms_nobody() {
    const GROWTH_MAX: usize = 24 << 20;
    let panics = panics();
    let real = Real::with("", |config| config.message_max = 1 << 20);
    let witness = real.runtime.block_on(real.client());
    let run = |text: &str| real.runtime.block_on(witness.batch_execute(text)).unwrap();
    run("create table fuzzed (id int primary key, t text)");
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut settled = 0;
    for round in 0..ROUNDS {
        client(&mut random, real.address, round, &TEXTS);
        assert_eq!(panics.load(SeqCst), 0, "round {round}");
        if round == ROUNDS / 2 {
            settled = resident();
        }
        if round.is_multiple_of(100) {
            run("truncate fuzzed");
        }
    }
    real.runtime.block_on(async {
        real.until("no transaction is open", |engine| engine.transactions().is_empty()).await;
        real.until("nothing is locked", |engine| engine.locks().is_empty()).await;
        let others = "select count(*) from pg_stat_activity where pid <> pg_backend_pid()";
        let begun = std::time::Instant::now();
        while witness.query_one(others, &[]).await.unwrap().get::<_, i64>(0) != 0 {
            assert!(begun.elapsed() < PATIENCE, "sessions are left");
        }
    });
    let grown = resident().saturating_sub(settled);
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
}
