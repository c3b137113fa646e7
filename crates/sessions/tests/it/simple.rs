//! The simple protocol, byte by byte.

use crate::support::Rig;
use wirekit::raw::{bind, execute, message, parse, query, sync};

pub fn statements_are_answered() {
    let rig = Rig::new();
    let mut client = rig.client();
    assert_eq!(client.ask(&query("rows 2")), "T(n:23:0,t:25:0) D(1,row 1) D(2,row 2) C(SELECT 2) Z(I)");
    assert_eq!(client.ask(&query("rows 0")), "T(n:23:0,t:25:0) C(SELECT 0) Z(I)");
    assert_eq!(client.ask(&query("returning 1")), "T(n:23:0,t:25:0) D(1,row 1) C(INSERT 0 1) Z(I)");
    assert_eq!(client.ask(&query("show x")), "T(x:25:0) D(x) C(SHOW) Z(I)");
    assert_eq!(client.ask(&query("insert 3")), "C(INSERT 0 3) Z(I)");
    assert_eq!(client.ask(&query("")), "I Z(I)");
    assert_eq!(client.ask(&query(" ; ")), "I Z(I)");
    assert_eq!(client.ask(&query("notice hello")), "N(NOTICE|00000|hello) C(DO) Z(I)");
    assert_eq!(client.ask(&query("set me")), "C(SET) S(application_name=me) Z(I)");
    assert_eq!(client.ask(&query("echo $1")), "E(ERROR|42P02|there is no parameter $1|P6) Z(I)");
    client.send(&message(b'X', b""));
    assert_eq!(client.answer(), "end");
    rig.until("the session ends", |rig| rig.script.0.alive.load(std::sync::atomic::Ordering::SeqCst) == 0);
}

pub fn several_statements_are_one_transaction() {
    let rig = Rig::new();
    let mut client = rig.client();
    assert_eq!(client.ask(&query("insert 1; insert 2")), "C(INSERT 0 1) C(INSERT 0 2) Z(I)");
    assert_eq!(rig.log()[1..], ["insert 1", "insert 2", "commit"]);
    // An error skips the rest, and rolls back what came before.
    let error = "E(ERROR|22012|division by zero|DThis happens.|HDo not.|P13) Z(I)";
    assert_eq!(client.ask(&query("insert 1; fail; insert 2")), format!("C(INSERT 0 1) {error}"));
    assert_eq!(rig.log()[4..], ["insert 1", "fail", "rollback"]);
    // All statements are parsed before any is run.
    let error = "E(ERROR|42601|syntax error at or near \"!\"|P11) Z(I)";
    assert_eq!(client.ask(&query("insert 1; !")), error);
    // Positions count in the whole text, and in characters.
    let error = "E(ERROR|42601|no x|HMake sense.|P12) Z(I)";
    let moved = error.replace("P12", "P19");
    assert_eq!(client.ask(&query("notice ü; nonsense x")), format!("N(NOTICE|00000|ü) C(DO) {moved}"));
    assert_eq!(client.ask(&query("; ;nonsense x")), error);
    assert_eq!(rig.log().len(), 9);
}

pub fn a_failed_commit_takes_the_tag_away() {
    let rig = Rig::new();
    let mut client = rig.client();
    let error = "E(ERROR|40001|could not serialize access) Z(I)";
    assert_eq!(client.ask(&query("insert 1; fail-at-commit")), format!("C(INSERT 0 1) {error}"));
}

/// A statement alone in its message is run again until it is committed; the client sees the last run only.
pub fn what_a_more_important_transaction_aborts_is_run_again() {
    let rig = Rig::new();
    let mut client = rig.client();
    let answer = "T(n:23:0,t:25:0) D(1,row 1) D(2,row 2) C(UPDATE 2) Z(I)";
    assert_eq!(client.ask(&query("taken-at-commit 2")), format!("N(NOTICE|00000|run 3) {answer}"));
    let text = "taken-at-commit 2";
    let lost = [text, "rollback"];
    assert_eq!(rig.log()[1..], [&lost[..], &lost, &[text, "commit"]].concat());
    // Not among other statements, and not in a block: more than its own effects are lost.
    let error = "E(ERROR|40001|could not serialize access due to concurrent update";
    assert!(client.ask(&query("insert 1; taken-at-commit 1")).contains(error));
    // Nor when the client may have seen a part of it.
    let alone = [parse("", "taken-at-commit 1", &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
    client.send(&[alone.clone(), message(b'H', b"")].concat());
    assert!((0..6).map(|_| client.next().unwrap()).any(|one| one == "C(UPDATE 1)"));
    assert!(client.ask(&sync()).starts_with(error));
    // In the extended protocol, when `Sync` has come.
    assert_eq!(client.ask(&query("insert 7")), "C(INSERT 0 7) Z(I)");
    let answer = "1 2 N(NOTICE|00000|run 2) D(1,row 1) C(UPDATE 1) Z(I)";
    assert_eq!(client.ask(&[alone, sync()].concat()), answer);
    // A statement that is aborted while it runs, whatever follows it, but not after other statements.
    let alone = [parse("", "taken 2", &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
    client.send(&[alone, message(b'H', b"")].concat());
    let said: Vec<String> = (0..5).map(|_| client.next().unwrap()).collect();
    assert_eq!(said.join(" "), "1 2 D(1,row 1) D(2,row 2) C(UPDATE 2)");
    assert_eq!(client.ask(&sync()), "Z(I)");
    let answer = "T(n:23:0,t:25:0) D(1,row 1) C(UPDATE 1) C(INSERT 0 1) Z(I)";
    assert_eq!(client.ask(&query("taken 1; insert 1")), answer);
    assert!(client.ask(&query("insert 1; taken 1")).contains(error));
}

pub fn blocks_and_failed_blocks() {
    let rig = Rig::new();
    let mut client = rig.client();
    assert_eq!(client.ask(&query("begin")), "C(BEGIN) Z(T)");
    assert!(client.ask(&query("fail")).ends_with(" Z(E)"));
    let aborted = "current transaction is aborted, commands ignored until end of transaction block";
    assert_eq!(client.ask(&query("rows 1")), format!("E(ERROR|25P02|{aborted}) Z(E)"));
    assert_eq!(client.ask(&query("commit")), "C(ROLLBACK) Z(I)");
    assert_eq!(client.ask(&query("begin; insert 1; commit")), "C(BEGIN) C(INSERT 0 1) C(COMMIT) Z(I)");
    // A client that disconnects leaves nothing behind.
    assert_eq!(client.ask(&query("begin")), "C(BEGIN) Z(T)");
    drop(client);
    rig.until("its end rolls back", |rig| rig.log().last().is_some_and(|last| last == "rollback"));
}

pub fn bad_messages_end_the_query_or_the_session() {
    let rig = Rig::with(|config| config.message_max = 20_000);
    let mut client = rig.client();
    assert_eq!(client.ask(&message(b'Q', b"rows 1")), "E(ERROR|08P01|invalid string in message) Z(I)");
    assert_eq!(client.ask(&message(b'Q', b"rows 1\0x\0")), "E(ERROR|08P01|invalid message format) Z(I)");
    let utf8 = "E(ERROR|22021|invalid byte sequence for encoding \"UTF8\": 0xff) Z(I)";
    assert_eq!(client.ask(&message(b'Q', b"\xff\0")), utf8);
    assert_eq!(client.ask(&message(b'F', b"")), "E(ERROR|0A000|a function call message is not supported) Z(I)");
    // COPY messages are ignored outside of a COPY.
    client.send(&[message(b'd', b"1"), message(b'c', b""), message(b'f', b"why\0")].concat());
    assert_eq!(client.ask(&query("insert 1")), "C(INSERT 0 1) Z(I)");
    // Many messages at once, in one write and byte by byte.
    let many: Vec<u8> = (0..100).flat_map(|_| query("insert 1")).collect();
    client.send(&many);
    (0..100).for_each(|_| assert_eq!(client.answer(), "C(INSERT 0 1) Z(I)"));
    query("insert 1").chunks(1).for_each(|byte| client.send(byte));
    assert_eq!(client.answer(), "C(INSERT 0 1) Z(I)");
    let ends = |bytes: &[u8]| rig.client().ask(bytes);
    assert_eq!(ends(b"!"), "E(FATAL|08P01|invalid frontend message type 33) end");
    assert_eq!(ends(b"Q\0\0\0\x03"), "E(FATAL|08P01|invalid message length) end");
    let long = "E(FATAL|54000|a message of 20001 bytes is longer than this server accepts) end";
    assert_eq!(ends(&[&b"Q"[..], &20_005_i32.to_be_bytes()].concat()), long);
    assert_eq!(ends(&message(b'p', b"")), "E(FATAL|08P01|invalid frontend message type 112) end");
}

pub fn large_results_pass() {
    let rig = Rig::new();
    let mut client = rig.client();
    let answer = client.ask(&query("rows 100000"));
    assert!(answer.ends_with("D(100000,row 100000) C(SELECT 100000) Z(I)"));
}

/// A new statement runs beside the threads of the network, a known short one on them, and a large one below them,
/// unless other sessions may come to wait for it.
pub fn statements_run_where_they_delay_nobody() {
    let rig = Rig::new();
    let mut client = rig.client();
    let mut thread = |text: &str| {
        let answer = client.ask(&query(text));
        let row = answer.split(" D(").nth(1).unwrap_or_else(|| panic!("{answer}"));
        row.split(')').next().unwrap().to_owned()
    };
    assert_eq!(thread("thread"), "tokio-rt-worker");
    // A statement that a busy machine made long is forgiven when it was short often enough.
    assert!((0..500).any(|_| thread("thread") == "network"));
    assert_eq!(thread("thread large"), "below");
    assert_eq!(thread("begin; thread large in a block; commit"), "tokio-rt-worker");
    assert_eq!(thread("insert 1; thread large behind a change"), "tokio-rt-worker");
}

/// A transaction that has changed much ends where that delays no other session, whatever ends it: a commit, an error of
/// a statement or of a message, the end of its session. A COPY in it, which may fail, runs there, too.
pub fn transactions_end_where_they_delay_nobody() {
    let rig = Rig::new();
    // Known to be short from here on.
    let mut client = rig.client();
    (0..500).for_each(|_| drop(client.ask(&query("begin; much; rollback; begin; commit"))));
    let ends = |rig: &Rig| rig.log().into_iter().filter(|line| line.contains(" on ")).collect::<Vec<_>>();
    let mut seen = ends(&rig).len();
    let mut expect = |what: &str, wanted: &[&str]| {
        let wanted: Vec<_> = wanted.iter().map(|what| format!("{what} on tokio-rt-worker")).collect();
        rig.until(what, |rig| seen < ends(rig).len());
        assert_eq!(ends(&rig)[seen..], wanted, "{what}");
        seen += wanted.len();
    };
    for (texts, end) in [
        (&["much"][..], "commit"),
        (&["begin; much", "commit"], "commit"),
        (&["begin; much", "rollback"], "rollback"),
        (&["much; fail"], "rollback"),
        (&["much; nonsense"], "rollback"),
        (&["begin; much", "!"], "rollback"),
    ] {
        let mut client = rig.client();
        texts.iter().for_each(|text| drop(client.ask(&query(text))));
        expect(&format!("{texts:?}"), &[end]);
    }
    let portal = [parse("", "much", &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
    client.ask(&[portal.clone(), sync()].concat());
    expect("Sync", &["commit"]);
    client.ask(&[portal, parse("", "nonsense", &[]), sync()].concat());
    expect("Parse", &["rollback"]);
    client.ask(&query("begin; much; copy-out 10"));
    expect("COPY TO", &["copies"]);
    client.send(&query("copy-in 3"));
    assert_eq!(client.next().unwrap(), "G(0,2)");
    client.ask(&[message(b'd', b"abcdef"), message(b'c', b"")].concat());
    expect("COPY FROM", &["copies", "rollback"]);
    client.ask(&query("rollback; begin; much"));
    drop(client);
    expect("the end of the session", &["rollback"]);
}

/// A long text is prepared below the threads of the network, too, unless other sessions may
/// come to wait for the session.
pub fn long_texts_are_prepared_where_they_delay_nobody() {
    let rig = Rig::new();
    let mut client = rig.client();
    let prepared = |rig: &Rig| rig.log().into_iter().filter(|line| line.starts_with("prepared")).collect::<Vec<_>>();
    let long = format!("show here {}", "x".repeat(5_000));
    client.ask(&query("show here"));
    client.ask(&query(&long));
    client.ask(&[parse("", "show here", &[]), parse("", &long, &[]), sync()].concat());
    client.ask(&query("begin"));
    client.ask(&query(&long));
    let threads = ["network", "below", "network", "below", "tokio-rt-worker"];
    assert_eq!(prepared(&rig), threads.map(|thread| format!("prepared on {thread}")));
}
