//! Random, truncated and reordered messages: an error or a closed connection, never a panic, a hang or a leak.

use crate::support::{Raw, Rig, bind, execute, message, named, parse, query, startup, sync};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const ROUNDS: usize = 3000;

/// xorshift64: the same rounds each time.
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

    fn message(&mut self) -> Vec<u8> {
        let names = ["", "a", "b"];
        let texts = [
            "rows 3",
            "insert 1",
            "echo $1",
            "fail",
            "begin",
            "commit",
            "rollback",
            "nonsense x",
            "",
            "notice x",
            "!",
            "copy-in 4",
            "copy-in",
            "copy-out 3",
        ];
        let (name, other, text) = (self.of(&names), self.of(&names), self.of(&texts));
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

    /// What one client sends.
    fn conversation(&mut self) -> Vec<u8> {
        let mut all: Vec<u8> = (0..1 + self.below(12)).flat_map(|_| self.message()).collect();
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

/// Sends it all, and reads to the end.
fn converse(mut client: Raw<TcpStream>, bytes: &[u8]) {
    // The server may have closed already.
    let _ = client.stream.write_all(bytes);
    let _ = client.stream.shutdown(Shutdown::Write);
    let mut rest = vec![];
    if let Err(error) = client.stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "a hang");
    }
}

pub fn garbage_harms_nobody() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, SeqCst);
        report(info);
    }));
    let rig = Rig::with(|config| config.message_max = 1 << 20);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut witness = rig.client();
    for round in 0..ROUNDS {
        if round % 4 == 0 {
            let mut bytes = startup(3 << 16, &[("user", "postgres")]);
            let at = random.below(bytes.len());
            bytes[at] = u8::try_from(random.below(256)).unwrap();
            bytes.extend(random.conversation());
            converse(rig.stranger(), &bytes);
        } else {
            converse(rig.client(), &random.conversation());
        }
        assert_eq!(PANICS.load(SeqCst), 0, "round {round}");
    }
    assert_eq!(witness.ask(&query("insert 1")), "C(INSERT 0 1) Z(I)");
    rig.until("all but one have gone", |rig| rig.script.0.alive.load(SeqCst) == 1);
}
