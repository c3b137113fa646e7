//! Properties of a transaction by its first statement, in front of an upstream: the same rules, fingerprints and hot
//! keys as in front of our own engine, and the values that the proxy shows of its settings.

use crate::support::{Front, spared, value};
use ::gate::{AdmissionOrder, GateSettings};
use proxy::UpstreamOptions;
use server::{AdmissionOptions, HotRules, Mode};
use settings::Defaults;
use settings::sources;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wirekit::cluster::Cluster;
use wirekit::raw::{bind, execute, message, named, parse, query, sync};
use wirekit::waits::{keep_slots, state, until, waiting};

/// Proxy with these settings, and this many transactions at a time.
fn front(mpl: u32, flags: &[&str], change: impl FnOnce(&mut AdmissionOptions)) -> Option<Front> {
    let cluster = Cluster::start("")?;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let mut settings = Defaults::default();
    for flag in flags {
        sources::read_flag(flag, &mut settings).unwrap();
    }
    let mut gate = GateSettings::of_priorities(mpl);
    keep_slots(&mut gate);
    let mut admission = AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() };
    change(&mut admission);
    Some(Front::behind(cluster, &url, UpstreamOptions::from_settings(&settings).unwrap(), &admission, |_| {}))
}

/// Way in which a client runs a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Query,
    /// Statement that was prepared before.
    Name,
    /// Parse and all that follows at once.
    Pipeline,
    /// Statement behind a BEGIN that was answered before.
    Block,
    /// Statement behind a BEGIN in the same write, whose answer nobody has waited for.
    Write,
}

/// Runs these texts while the only slot is taken, in this order, and returns the order in which they were done: each
/// returns its time.
fn order_of(front: &Front, texts: &[(By, &'static str)]) -> Vec<&'static str> {
    let mut holder = front.raw();
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut clients: Vec<_> = texts.iter().map(|_| front.raw()).collect();
    for (client, (by, text)) in clients.iter_mut().zip(texts) {
        if *by == By::Name {
            assert_eq!(client.ask(&[parse("s", text, &[]), sync()].concat()), "1 Z(I)");
        }
        if *by == By::Block {
            assert_eq!(client.ask(&query("begin")), "C(BEGIN) Z(T)");
        }
    }
    holder.ask(&query("begin; select 1"));
    std::thread::scope(|scope| {
        for (at, (mut client, &(by, text))) in clients.into_iter().zip(texts).enumerate() {
            let done = Arc::clone(&done);
            scope.spawn(move || {
                let run = |name| [bind("", name, &[], &[], &[]), execute("", 0), sync()].concat();
                let said = client.ask(&match by {
                    By::Query | By::Block => query(text),
                    By::Name => run("s"),
                    By::Pipeline => [parse("", text, &[]), run("")].concat(),
                    By::Write => {
                        let begin = [parse("", "begin", &[]), bind("", "", &[], &[], &[]), execute("", 0)];
                        [begin.concat(), parse("", text, &[]), run("")].concat()
                    }
                });
                if matches!(by, By::Block | By::Write) {
                    assert!(said.ends_with("C(SELECT 1) Z(T)"), "{said}");
                    assert_eq!(client.ask(&query("commit")), "C(COMMIT) Z(I)");
                } else {
                    assert!(said.ends_with("C(SELECT 1) Z(I)"), "{said}");
                }
                let at = said.split("D(").nth(1).unwrap().to_owned();
                done.lock().unwrap().push((at, text));
            });
            front.runtime.block_on(until("it waits", || waiting(&front.admission) == at + 1));
        }
        holder.ask(&query("commit"));
    });
    let mut done = Arc::into_inner(done).unwrap().into_inner().unwrap();
    done.sort();
    done.into_iter().map(|(_, text)| text).collect()
}

fn until_empty(front: &Front) {
    front.runtime.block_on(until("nobody is inside", || front.admission.view().unwrap().gate.transactions == 0));
    front.all_idle();
}

pub fn rules_look_at_tags_and_fingerprints() {
    let rules = "overtake.priority_rules=high tag.action=pay%; low fingerprint=\"select clock_timestamp(), 1 as low\"";
    let Some(front) = front(1, &[rules], |_| {}) else { return };
    for by in [By::Query, By::Name, By::Pipeline, By::Block, By::Write] {
        let texts = [
            (by, "SELECT Clock_Timestamp(), 7 AS low"),
            (by, "select clock_timestamp(), 'first'"),
            (by, "select clock_timestamp() /*action='pay%20out',route='%2F'*/"),
        ];
        assert_eq!(order_of(&front, &texts), [texts[2].1, texts[1].1, texts[0].1]);
    }
    // A hint works in a prepared statement, too.
    let texts = [(By::Query, "select clock_timestamp()"), (By::Name, "/*+ priority=high */ select clock_timestamp()")];
    assert_eq!(order_of(&front, &texts), [texts[1].1, texts[0].1]);
    // So does a SET before the first query of the same text.
    for (by, text) in [
        (By::Block, "set local overtake.priority = high; select clock_timestamp()"),
        (By::Query, "SET overtake.priority TO 'high'; select clock_timestamp()"),
    ] {
        assert_eq!(order_of(&front, &[(By::Query, "select clock_timestamp()"), (by, text)])[0], text);
    }
    until_empty(&front);
}

/// Goal: a class that does not exist is refused before a server sees the statement, as the database does. Method: each
/// way to ask for one.
pub fn classes_that_do_not_exist_are_refused() {
    let Some(front) = front(1, &[], |_| {}) else { return };
    let mut client = front.raw();
    for text in [
        "/*+ priority=hihg */ select 1",
        "begin; set local overtake.priority = hihg; select 1",
        "set overtake.priority = hihg",
    ] {
        let said = client.ask(&query(text));
        assert!(said.contains("22023|invalid value for parameter \"overtake.priority\": \"hihg\""), "{said}");
        assert!(said.ends_with("Z(I)"), "{said}");
    }
    until_empty(&front);
}

/// A block needs no slot until its first statement, whatever opens and closes it.
pub fn a_block_begins_with_its_first_statement() {
    let Some(front) = front(1, &[], |_| {}) else { return };
    let (mut one, mut two) = (front.raw(), front.raw());
    let run = |name: &str, text: &str| {
        let all = [bind("", name, &[], &[], &[]), named(b'D', b'P', ""), execute("", 0), sync()];
        [if name.is_empty() { parse("", text, &[]) } else { Vec::new() }, all.concat()].concat()
    };
    two.ask(&[parse("b", "begin isolation level repeatable read", &[]), sync()].concat());
    for (begin, answer) in [
        (query("/* a */ begin;"), "C(BEGIN) Z(T)"),
        (run("", "start transaction read only"), "1 2 n C(START TRANSACTION) Z(T)"),
        (run("b", ""), "2 n C(BEGIN) Z(T)"),
    ] {
        assert_eq!(one.ask(&query("begin; select 1 as a")), "C(BEGIN) T(a:23:0) D(1) C(SELECT 1) Z(T)");
        // The only slot is taken.
        assert_eq!(two.ask(&begin), answer);
        assert_eq!(two.ask(&run("", "commit")), "1 2 n C(COMMIT) Z(I)");
        assert_eq!(two.ask(&begin), answer);
        assert_eq!(two.ask(&query("set local overtake.priority = high")), "C(SET) Z(T)");
        assert_eq!(two.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
        assert_eq!(two.ask(&query("show overtake.priority")), "T(overtake.priority:25:0) D(normal) C(SHOW) Z(I)");
        one.ask(&query("commit"));
        // The modes of the BEGIN are in force at the server, which also sends its warnings.
        assert_eq!(two.ask(&begin), answer);
        let said = two.ask(&query(
            "select current_setting('transaction_isolation') || current_setting('transaction_read_only') as a",
        ));
        let mode = match answer {
            "C(BEGIN) Z(T)" => "read committedoff",
            "1 2 n C(START TRANSACTION) Z(T)" => "read committedon",
            _ => "repeatable readoff",
        };
        assert_eq!(said, format!("T(a:25:0) D({mode}) C(SELECT 1) Z(T)"));
        let said = two.ask(&query("begin"));
        assert!(said.contains("25001") && said.ends_with("C(BEGIN) Z(T)"), "{said}");
        assert_eq!(two.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
        let said = two.ask(&query("rollback"));
        assert!(said.contains("25P01") && said.ends_with("C(ROLLBACK) Z(I)"), "{said}");
    }
    // A BEGIN in pieces, and its unnamed statement afterwards.
    let begin = run("", "begin");
    let (first, rest) = begin.split_at(begin.len() - 7);
    two.send(first);
    assert_eq!(one.ask(&query("select 2 as a")), "T(a:23:0) D(2) C(SELECT 1) Z(I)");
    assert_eq!(two.ask(rest), "1 2 n C(BEGIN) Z(T)");
    let said = two.ask(&[bind("", "", &[], &[], &[]), execute("", 0), sync()].concat());
    assert!(said.contains("25001") && said.ends_with("C(BEGIN) Z(T)"), "{said}");
    two.ask(&query("rollback"));
    until_empty(&front);
}

/// The first statement of the block is refused: nothing of the block is run until it has ended.
pub fn a_block_fails_where_it_is_refused() {
    let Some(front) = front(1, &[], |_| {}) else { return };
    let (mut holder, mut client) = (front.raw(), front.raw());
    client.ask(&query("set statement_timeout = '20ms'"));
    holder.ask(&query("begin; create table t (a int)"));
    for extended in [false, true] {
        let run = |text: &str| match extended {
            false => query(text),
            true => [parse("", text, &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat(),
        };
        for (end, tag) in [("commit", "ROLLBACK"), ("abort", "ROLLBACK")] {
            assert!(client.ask(&run("begin")).ends_with("C(BEGIN) Z(T)"));
            let said = client.ask(&run("insert into t values (1)"));
            assert!(said.contains("57014") && said.ends_with("Z(E)"), "{said}");
            for text in ["insert into t values (2)", "begin", "savepoint a", "set overtake.priority = high"] {
                let said = client.ask(&run(text));
                assert!(said.contains("25P02") && said.ends_with("Z(E)"), "{text}: {said}");
            }
            let said = client.ask(&run(end));
            assert!(said.ends_with(&format!("C({tag}) Z(I)")), "{said}");
        }
        assert!(client.ask(&run("Start transaction")).ends_with("C(START TRANSACTION) Z(T)"));
        client.ask(&run("end"));
        // Commands that work in a failed transaction as well.
        client.ask(&[parse("s", "select 1", &[]), sync()].concat());
        client.ask(&run("begin"));
        client.ask(&run("select 2"));
        assert_eq!(client.ask(&query("")), "I Z(E)");
        let close = [named(b'C', b'S', "s"), named(b'C', b'P', "p"), sync()].concat();
        assert_eq!(client.ask(&close), "3 3 Z(E)");
        let end = [parse("end", "rollback", &[]), bind("", "end", &[], &[], &[]), execute("", 0), sync()].concat();
        assert_eq!(client.ask(&end), "1 2 C(ROLLBACK) Z(I)");
        assert_eq!(client.ask(&[named(b'C', b'S', "end"), sync()].concat()), "3 Z(I)");
        // A failed command of the proxy's fails the block, too.
        assert!(client.ask(&run("begin")).ends_with("C(BEGIN) Z(T)"));
        let said = client.ask(&query("set overtake.priority = urgent"));
        assert!(said.contains("22023") && said.ends_with("Z(E)"), "{said}");
        assert!(client.ask(&run("end")).ends_with("C(ROLLBACK) Z(I)"));
    }
    holder.ask(&query("commit"));
    let mut other = front.raw();
    assert_eq!(other.ask(&query("select count(*) as n from t")), "T(n:20:0) D(0) C(SELECT 1) Z(I)");
    until_empty(&front);
}

/// A block that has failed at the proxy has the same ways out as at the server.
pub fn a_failed_block_has_its_ways_out() {
    let Some(front) = front(1, &[], |_| {}) else { return };
    let mut client = front.raw();
    let fail = |client: &mut wirekit::raw::Raw<std::net::TcpStream>, begin: &str| {
        assert!(client.ask(&query(begin)).ends_with("Z(T)"));
        assert!(client.ask(&query("set overtake.priority = urgent")).ends_with("Z(E)"));
    };
    for (text, said) in [
        ("rollback; select 1 as a", "C(ROLLBACK) T(a:23:0) D(1) C(SELECT 1) Z(I)"),
        ("/* a */ ; COMMIT; select 1 as a", "C(ROLLBACK) T(a:23:0) D(1) C(SELECT 1) Z(I)"),
        ("abort;begin", "C(ROLLBACK) C(BEGIN) Z(T)"),
        ("rollback and chain", "C(ROLLBACK) Z(T)"),
        ("end and no chain", "C(ROLLBACK) Z(I)"),
    ] {
        fail(&mut client, "begin -- a");
        assert_eq!(client.ask(&query(text)), said, "{text}");
        client.ask(&query("rollback"));
        assert_eq!(front.all_idle(), 1, "{text}");
    }
    // PostgreSQL 15 chains the level only of a block that failed below a savepoint.
    let mut level = |has_failed_here: bool| {
        if has_failed_here {
            fail(&mut client, "begin isolation level repeatable read;");
        } else {
            client.ask(&query("begin isolation level repeatable read;"));
            assert!(client.ask(&query("select 1 / 0")).ends_with("Z(E)"));
        }
        assert_eq!(client.ask(&query("commit and chain")), "C(ROLLBACK) Z(T)");
        let level = client.ask(&query("show transaction_isolation"));
        client.ask(&query("rollback"));
        level
    };
    assert_eq!(level(true), level(false));
    for (text, state) in [("rollback to a", "3B001"), ("rollback x", "42601"), ("commit prepared 'a'", "25P02")] {
        fail(&mut client, "begin");
        let said = client.ask(&query(text));
        assert!(said.contains(state) && said.ends_with("Z(E)"), "{text}: {said}");
        assert!(client.ask(&query("select 1")).contains("25P02"));
        assert_eq!(client.ask(&query("rollback; select 1 as a")), "C(ROLLBACK) T(a:23:0) D(1) C(SELECT 1) Z(I)");
    }
    // Described, as drivers do, and by other statements than the plain ones. A client without any message before, too.
    let run = |name: &str| [bind("", name, &[], &[], &[]), execute("", 0), sync()].concat();
    for mut client in [client, front.raw()] {
        fail(&mut client, "begin");
        let end = [parse("r", "rollback", &[]), named(b'D', b'S', "r"), sync()].concat();
        assert_eq!(client.ask(&end), "1 t n Z(E)");
        assert_eq!(client.ask(&run("r")), "2 C(ROLLBACK) Z(I)");
        client.ask(&query("begin"));
        assert_eq!(client.ask(&query("select 1 as a")), "T(a:23:0) D(1) C(SELECT 1) Z(T)");
        assert_eq!(client.ask(&run("r")), "2 C(ROLLBACK) Z(I)");
        fail(&mut client, "begin");
        let chain = [parse("", "rollback and chain", &[]), named(b'D', b'S', ""), run("")].concat();
        assert_eq!(client.ask(&chain), "1 t n 2 C(ROLLBACK) Z(T)");
        assert_eq!(client.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
    }
    assert_eq!(front.all_idle(), 1);
}

pub fn the_shortest_expected_goes_first() {
    let order = |options: &mut AdmissionOptions| {
        options.gate.classes[1].order = AdmissionOrder::ShortestExpected { patience: 1e6 };
    };
    let Some(front) = front(1, &[], order) else { return };
    let mut raw = front.raw();
    for number in 0..20 {
        raw.ask(&query(&format!("select clock_timestamp(), pg_sleep(0.0{}1)", number % 2)));
        raw.ask(&query(&format!("select clock_timestamp(), {number}")));
    }
    for by in [By::Query, By::Name, By::Pipeline] {
        let texts = [(by, "select clock_timestamp(), pg_sleep(0.01)"), (by, "select clock_timestamp(), 3")];
        assert_eq!(order_of(&front, &texts), [texts[1].1, texts[0].1]);
    }
    until_empty(&front);
}

pub fn who_would_meet_at_a_row_waits_outside() {
    let rule = |options: &mut AdmissionOptions| {
        options.hot = HotRules::parse("a: update t set n = n + $1 where id = $key").unwrap();
    };
    let Some(front) = front(10, &[], rule) else { return };
    let held_back = || front.admission.view().unwrap().gate.classes[1].held_back;
    front.runtime.block_on(async {
        let holder = front.client().await;
        holder
            .batch_execute("create table t (id int primary key, n int); insert into t values (7, 0), (8, 0)")
            .await
            .unwrap();
        let update = "update t set n = n + $1 where id = $2";
        for (before, begin) in [("", "begin /*hot_key='a%3A7'*/"), ("set overtake.hot_key = 'a:7'", "begin")] {
            holder.batch_execute(before).await.unwrap();
            holder.batch_execute(begin).await.unwrap();
            holder.batch_execute("select 1").await.unwrap();
            let (by_parameter, by_text) = (front.client().await, front.client().await);
            let tasks = [
                tokio::spawn(async move { by_parameter.execute(update, &[&1, &7]).await.unwrap() }),
                tokio::spawn(async move {
                    by_text.batch_execute("UPDATE t SET n = n + 5 WHERE id = 7").await.unwrap();
                    1
                }),
            ];
            until("both wait", || held_back() == 2).await;
            let other = front.client().await;
            other.execute(update, &[&1, &8]).await.unwrap();
            holder.batch_execute("commit").await.unwrap();
            for task in tasks {
                assert_eq!(task.await.unwrap(), 1);
            }
            // A wait for a hot key can be given up.
            holder.batch_execute(begin).await.unwrap();
            holder.batch_execute("select 1").await.unwrap();
            let cancel = other.cancel_token();
            let waits = tokio::spawn(async move { other.execute(update, &[&1, &7]).await });
            until("it waits", || held_back() == 1).await;
            cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
            assert_eq!(state(&waits.await.unwrap().unwrap_err()), "57014");
            holder.batch_execute("commit").await.unwrap();
        }
        holder.batch_execute("reset overtake.hot_key").await.unwrap();
        assert_eq!(value(&holder, "select n from t where id = 7").await, "12");
        let admin = front.try_client("dbname=overtake").await.unwrap();
        let rows = admin.simple_query("show gate").await.unwrap();
        let held_back = rows.iter().find_map(|row| match row {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get("held_back"),
            _ => None,
        });
        assert_eq!(held_back, Some("0"));
    });
    assert!(6 <= front.admission.view().unwrap().gate.counters.held_back);
    until_empty(&front);
}

pub fn a_wait_at_the_gate_is_part_of_the_time() {
    let Some(front) = front(1, &[], |_| {}) else { return };
    front.runtime.block_on(async {
        let (holder, client) = (front.client().await, front.client().await);
        client.batch_execute("set statement_timeout = '30ms'; set lock_timeout = '1ms'").await.unwrap();
        let other = front.try_client("options='-c statement_timeout=40ms'").await.unwrap();
        holder.batch_execute("begin; select 1").await.unwrap();
        for (client, ms) in [(&client, 30), (&other, 40)] {
            let begun = Instant::now();
            let error = client.query("select 2", &[]).await.unwrap_err();
            assert_eq!(state(&error), "57014");
            let error = error.as_db_error().unwrap();
            assert_eq!(error.message(), "canceling statement due to statement timeout");
            assert!(error.detail().unwrap().contains("at the gate"), "{error:?}");
            assert!(Duration::from_millis(ms) <= begun.elapsed());
        }
        client.batch_execute("set overtake.priority = low").await.unwrap();
        assert_eq!(waiting(&front.admission), 0);
        holder.batch_execute("commit").await.unwrap();
        assert_eq!(spared(&client, "select 2").await, "2");
    });
    until_empty(&front);
}

/// SHOW works by both protocols, in and outside of transactions, and with the client's own values.
pub fn settings_of_the_front_are_shown() {
    let Some(front) = front(5, &["overtake.mpl_loss=7"], |_| {}) else { return };
    let mut raw = front.raw();
    let run = |name: &str| [bind("", name, &[], &[], &[]), execute("", 0), sync()].concat();
    let show = |name: &str| [parse("", &format!("SHOW {name}"), &[]), named(b'D', b'S', ""), run("")].concat();
    let shows = |name: &str, value: &str| format!("1 t T({name}:25:0) 2 D({value}) C(SHOW) Z(I)");
    let (class, key) = ("overtake.priority", "overtake.hot_key");
    assert_eq!(raw.ask(&show("Overtake.Priority")), shows(class, "normal"));
    assert_eq!(raw.ask(&show("overtake.mpl_loss")), shows("overtake.mpl_loss", "7"));
    assert_eq!(raw.ask(&query("show overtake.mpl_loss")), "T(overtake.mpl_loss:25:0) D(7) C(SHOW) Z(I)");
    assert!(raw.ask(&query("show overtake.nothing")).contains("42704"));
    raw.ask(&query("set overtake.hot_key = 'it''s 7'"));
    assert_eq!(raw.ask(&show(key)), shows(key, "it's 7"));
    // A named statement shows the value at the time when it is run: set in the same pipeline, rolled back, reset.
    let prepare = [parse("k", "show overtake.priority", &[]), parse("h", "set overtake.priority = high", &[]), sync()];
    assert_eq!(raw.ask(&prepare.concat()), "1 1 Z(I)");
    let two = |first: &str, second: &str| {
        [bind("", first, &[], &[], &[]), execute("", 0), bind("", second, &[], &[], &[]), execute("", 0), sync()]
            .concat()
    };
    assert_eq!(raw.ask(&two("h", "k")), "2 C(SET) 2 D(high) C(SHOW) Z(I)");
    raw.ask(&query("begin"));
    raw.ask(&query("set overtake.priority = low"));
    assert_eq!(raw.ask(&run("k")), "2 D(low) C(SHOW) Z(T)");
    assert!(raw.ask(&query("select 1/0")).contains("22012"));
    assert!(raw.ask(&run("k")).contains("25P02"));
    raw.ask(&query("rollback"));
    assert_eq!(raw.ask(&run("k")), "2 D(high) C(SHOW) Z(I)");
    raw.ask(&query("reset overtake.priority"));
    assert_eq!(raw.ask(&run("k")), "2 D(normal) C(SHOW) Z(I)");
    // Row by row, and beside ordinary rows.
    let portal = [bind("p", "k", &[], &[], &[]), execute("p", 1), execute("p", 1), sync()].concat();
    assert_eq!(raw.ask(&portal), "2 D(normal) s C(SHOW) Z(I)");
    let beside = [parse("", "select 1 as a", &[]), bind("", "", &[], &[], &[]), execute("", 0), run("k")].concat();
    assert_eq!(raw.ask(&beside), "1 2 D(1) C(SELECT 1) 2 D(normal) C(SHOW) Z(I)");
    // Each portal has its own statement, in whatever order portals are bound and run, and some are never run.
    let prepare = [parse("s", "select 1", &[]), parse("l", "set overtake.priority = low", &[]), sync()];
    assert_eq!(raw.ask(&prepare.concat()), "1 1 Z(I)");
    let two = |first: &str, second: &str, run: &[&str]| {
        let run = run.iter().map(|portal| execute(portal, 0)).collect::<Vec<_>>().concat();
        [bind("p", first, &[], &[], &[]), bind("", second, &[], &[], &[]), run, sync()].concat()
    };
    assert_eq!(raw.ask(&two("k", "s", &["p"])), "2 2 D(normal) C(SHOW) Z(I)");
    assert_eq!(raw.ask(&two("s", "l", &["p"])), "2 2 D(1) C(SELECT 1) Z(I)");
    assert_eq!(raw.ask(&run("k")), "2 D(normal) C(SHOW) Z(I)");
    assert_eq!(raw.ask(&two("l", "s", &["", "p"])), "2 2 D(1) C(SELECT 1) C(SET) Z(I)");
    // In one write with the batch before.
    raw.send(&[run("k"), bind("p", "k", &[], &[], &[]), bind("", "s", &[], &[], &[]), message(b'H', b"")].concat());
    assert_eq!(raw.answer(), "2 D(low) C(SHOW) Z(I)");
    assert_eq!([raw.next(), raw.next()], [Some("2".to_owned()), Some("2".to_owned())]);
    assert_eq!(raw.ask(&[execute("p", 0), sync()].concat()), "D(low) C(SHOW) Z(I)");
    raw.ask(&query("reset overtake.priority"));
    front.runtime.block_on(async {
        let client = front.client().await;
        let row = client.query_one("show overtake.priority", &[]).await.unwrap();
        assert_eq!(row.get::<_, String>("overtake.priority"), "normal");
        // At login, as a setting of the proxy.
        let client = front.try_client("options='-c overtake.hot_key=b -c overtake.priority=low'").await.unwrap();
        assert_eq!(value(&client, "show overtake.hot_key").await, "b");
        client.batch_execute("set overtake.hot_key = c").await.unwrap();
        client.batch_execute("reset overtake.hot_key").await.unwrap();
        assert_eq!(value(&client, "show overtake.hot_key").await, "b");
    });
    until_empty(&front);
}

/// The server's own message would claim that a user has requested the cancel, which is not true.
pub fn a_runaway_is_told_so() {
    let after = Duration::from_millis(20);
    let cancel = |admission: &mut AdmissionOptions| {
        admission.gate.classes[1].runaway = Some(::gate::Runaway { after, reaction: ::gate::Reaction::Cancel });
    };
    let Some(front) = front(1, &[], cancel) else { return };
    front.runtime.block_on(async {
        let client = front.client().await;
        for _ in 0..2 {
            let error = client.batch_execute("begin; select pg_sleep(60)").await.unwrap_err();
            let error = error.as_db_error().unwrap();
            assert_eq!(error.code().code(), "57014");
            assert_eq!(error.message(), "canceling statement due to the runaway limit of class \"normal\"");
            assert!(error.detail().unwrap().ends_with("; 20 ms are the limit."), "{error:?}");
            assert!(error.hint().unwrap().contains("overtake.gate_classes"), "{error:?}");
            assert_eq!(error.routine(), Some("ProcessInterrupts"));
            client.batch_execute("rollback").await.unwrap();
        }
        // The client's own time limit is a different one.
        client.batch_execute("/*+ priority=high */ set statement_timeout = '30ms'").await.unwrap();
        let error = client.batch_execute("/*+ priority=high */ select pg_sleep(60)").await.unwrap_err();
        assert_eq!(error.as_db_error().unwrap().message(), "canceling statement due to statement timeout");
    });
    until_empty(&front);
}
