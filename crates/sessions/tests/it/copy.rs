//! COPY: the messages on the wire, including misbehaving clients.

use crate::real::{Real, resident};
use wirekit::raw::{bind, execute, message, parse, query, sync};

const TABLE: &str = "create table t (n int primary key, s text)";
const COUNT: &str = "select count(*) from t";
const COPY: &str = "copy t from stdin";

fn data(bytes: &[u8]) -> Vec<u8> {
    message(b'd', bytes)
}

fn done() -> Vec<u8> {
    message(b'c', b"")
}

fn portal(text: &str) -> Vec<u8> {
    [parse("", text, &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat()
}

fn counted(rows: usize) -> String {
    format!("T(count:20:0) D({rows}) C(SELECT 1) Z(I)")
}

/// Row of the binary format with one value.
fn tuple(value: &[u8]) -> Vec<u8> {
    [&1_i16.to_be_bytes()[..], &i32::try_from(value.len()).unwrap().to_be_bytes(), value].concat()
}

pub fn data_come_in() {
    let real = Real::new();
    let mut client = real.raw_client_after(&format!("{TABLE}; create table b (b bytea)"));
    client.send(&query(&format!("{COPY}; insert into t values (3, 'c')")));
    assert_eq!(client.next().unwrap(), "G(0,2)");
    let all = [data(b"1\ta\n"), data(b""), message(b'H', b""), data(b"2\tb"), data(b"\n"), done()].concat();
    assert_eq!(client.ask(&all), "C(COPY 2) C(INSERT 0 1) Z(I)");
    let read = client.ask(&query("select * from t order by n"));
    assert_eq!(read, "T(n:23:0,s:25:0) D(1,a) D(2,b) D(3,c) C(SELECT 3) Z(I)");
    // Messages that come byte by byte, and one that is longer than other messages may be.
    client.send(&query("copy b from stdin (format binary)"));
    assert_eq!(client.next().unwrap(), "G(1,1)");
    let head = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let first = tuple(b"abcde");
    for byte in [data(head), data(&first[..7]), data(&first[7..])].concat() {
        client.send(&[byte]);
    }
    let large = tuple(&vec![b'x'; 1 << 20]).repeat(80);
    client.send(&data(&large));
    client.send(&data(&(-1_i16).to_be_bytes()));
    assert_eq!(client.ask(&done()), "C(COPY 81) Z(I)");
    let sums = client.ask(&query("select sum(length(b)) as sum from b"));
    assert_eq!(sums, format!("T(sum:20:0) D({}) C(SELECT 1) Z(I)", 5 + (80 << 20)));
    // Outside of a COPY, its messages are ignored.
    let ignored = [data(b"x"), done(), message(b'f', b"no\0"), query(COUNT)].concat();
    assert_eq!(client.ask(&ignored), counted(3));
}

pub fn data_come_in_by_the_extended_protocol() {
    let real = Real::new();
    let mut client = real.raw_client_after(TABLE);
    client.send(&portal(COPY));
    assert_eq!([client.next(), client.next(), client.next()].map(Option::unwrap), ["1", "2", "G(0,2)"]);
    // The first `Sync` was sent before the client knew of the COPY.
    assert_eq!(client.ask(&[sync(), data(b"1\ta\n"), done(), sync()].concat()), "C(COPY 1) Z(I)");
    assert_eq!(client.ask(&portal("insert into t values (2)")), "1 2 C(INSERT 0 1) Z(I)");
    assert_eq!(client.ask(&query(COUNT)), counted(2));
}

pub fn an_error_swallows_the_rest() {
    let real = Real::new();
    let mut client = real.raw_client_after(TABLE);
    let error = "E(ERROR|22P04|extra data after last expected column|WCOPY t, line 1: \"1\ta\tx\")";
    let insert = "insert into t values (1)";
    client.send(&query(&format!("begin; {COPY}; {insert}")));
    assert_eq!([client.next(), client.next()].map(Option::unwrap), ["C(BEGIN)", "G(0,2)"]);
    // The rest of the failing message comes after the answer.
    let long = data(&b"1\ta\tx\n".repeat(100_000));
    client.send(&long[..1000]);
    assert_eq!(client.answer(), format!("{error} Z(E)"));
    let rest = [&long[1000..], &data(b"more"), &done(), &query("rollback")].concat();
    assert_eq!(client.ask(&rest), "C(ROLLBACK) Z(I)");
    // In the extended protocol, everything up to `Sync` is discarded.
    client.send(&portal(COPY));
    let rest = [data(b"1\ta\tx\n"), data(b"2\tb\n"), done(), query(insert), sync()].concat();
    assert_eq!(client.ask(&rest), format!("1 2 G(0,2) {error} Z(I)"));
    assert_eq!(client.ask(&query(COUNT)), counted(0));
}

pub fn a_client_gives_up_leaves_or_is_confused() {
    let real = Real::new();
    let mut client = real.raw_client_after(TABLE);
    let (begin, row) = (query(COPY), data(b"1\ta\n"));
    let failed = "G(0,2) E(ERROR|57014|COPY from stdin failed: no more) Z(I)";
    assert_eq!(client.ask(&[&begin[..], &row, &message(b'f', b"no more\0")].concat()), failed);
    let lost = "E(FATAL|08P01|terminating connection because protocol synchronization was lost) end";
    let confused = format!("G(0,2) E(ERROR|08P01|unexpected message type 0x51 during COPY from stdin) {lost}");
    assert_eq!(client.ask(&[&begin[..], &row, &query("select 1")].concat()), confused);
    let confused = confused.replace("0x51", "0x01");
    assert_eq!(real.raw_client().ask(&[&begin[..], &[1, 2, 3]].concat()), confused);
    assert!(real.raw_client().ask(&[&begin[..], b"c\xff\0\0\0"].concat()).ends_with(lost));
    real.wait_until("they have gone", |real| real.sessions() == 0);
    let mut client = real.raw_client();
    client.send(&[&begin[..], &row, &row[..6]].concat());
    assert_eq!(client.next().unwrap(), "G(0,2)");
    drop(client);
    real.wait_until("it has gone, too", |real| real.sessions() == 0);
    assert!(real.engine.transactions().is_empty());
    assert_eq!(real.raw_client().ask(&query(COUNT)), counted(0));
}

/// Data whose key another transaction has inserted wait for its end.
pub fn data_that_must_wait() {
    let real = Real::new();
    let mut holder = real.raw_client_after(TABLE);
    let all = [query(COPY), data(b"1\ta"), data(b"\n2\tb\n"), done()].concat();
    let mut client = real.raw_client();
    assert_eq!(holder.ask(&query("begin; insert into t values (1)")), "C(BEGIN) C(INSERT 0 1) Z(T)");
    client.send(&all);
    assert_eq!(client.next().unwrap(), "G(0,2)");
    real.wait_until("it waits", |real| real.waits() == 1);
    assert_eq!(holder.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
    assert_eq!(client.answer(), "C(COPY 2) Z(I)");
    // Data wait before all have come, too: a pause shows them to the table.
    holder.ask(&query("truncate t"));
    assert_eq!(holder.ask(&query("begin; insert into t values (1)")), "C(BEGIN) C(INSERT 0 1) Z(T)");
    client.send(&[query(COPY), data(b"1\ta\n")].concat());
    real.wait_until("a part waits", |real| real.waits() == 1);
    client.send(&[data(b"2\tb\n"), done()].concat());
    assert_eq!(holder.ask(&query("commit")), "C(COMMIT) Z(I)");
    let taken = client.answer();
    assert!(taken.starts_with("G(0,2) E(ERROR|23505|") && taken.ends_with(" Z(I)"), "{taken}");
    // A client that disconnects while its data wait.
    holder.ask(&query("truncate t"));
    assert_eq!(holder.ask(&query("begin; insert into t values (1)")), "C(BEGIN) C(INSERT 0 1) Z(T)");
    client.send(&all);
    real.wait_until("it waits again", |real| real.waits() == 1);
    drop(client);
    real.wait_until("its session ends", |real| real.sessions() == 1);
    assert_eq!(real.waits(), 0);
    holder.ask(&query("rollback"));
    assert_eq!(holder.ask(&query(COUNT)), counted(0));
}

pub fn data_go_out_part_by_part() {
    let real = Real::new();
    let mut client = real.raw_client_after(TABLE);
    let copy = |rows| format!("copy (select n, 'row ' || n from generate_series(1, {rows}) n) to stdout");
    let rows = "H(0,2) d(1\trow 1) d(2\trow 2) c C(COPY 2)";
    let then = "insert into t values (1)";
    assert_eq!(client.ask(&query(&format!("{}; {then}", copy(2)))), format!("{rows} C(INSERT 0 1) Z(I)"));
    assert_eq!(client.ask(&portal(&copy(2))), format!("1 2 {rows} Z(I)"));
    // Rows that call something that differs from call to call are made before the first is sent.
    client.ask(&query("create sequence s"));
    let numbers = "copy (select nextval('s'), 'x' from generate_series(1, 2000)) to stdout";
    let said = client.ask(&query(numbers));
    assert!(said.starts_with("H(0,2) d(1\tx) d(2\tx) ") && said.ends_with(" d(2000\tx) c C(COPY 2000) Z(I)"), "{said}");
    let failing = "copy (select n, 1 / (150000 - n) from generate_series(1, 200000) n) to stdout";
    let failed = client.ask(&query(failing));
    assert!(failed.starts_with("H(0,2) d(1\t0) d(2\t0) ") && !failed.contains(" c "), "{failed:.100}");
    let rest = failed.rsplit(" d(").next().unwrap();
    assert!(rest.ends_with(") E(ERROR|22012|division by zero) Z(I)"), "{rest}");
    // For a client that does not read, no rows are read: the system's buffers fill up, and the server holds one part.
    let before = resident();
    let endless = "select g, repeat('x', 1000) from generate_series(1, 1000000000000) g";
    let mut slow = real.raw_client();
    slow.send(&query(&format!("copy ({endless}) to stdout")));
    assert_eq!(slow.next().unwrap(), "H(0,2)");
    let large = client.ask(&query(&format!("copy ({endless} limit 100000) to stdout")));
    assert!(large.ends_with(" c C(COPY 100000) Z(I)"));
    drop(large);
    let grown = resident().saturating_sub(before);
    assert!(grown < 60, "{grown} MiB");
    drop(slow);
    real.wait_until("its session ends", |real| real.sessions() == 1);
}
