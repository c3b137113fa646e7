//! Marks of transactions by their first statement, before this server's engine: tags, fingerprints,
//! hot keys, and waiting times.

use crate::gate::{narrow, until_empty};
use crate::real::Real;
use ::gate::{AdmissionOrder, GateSettings};
use server::{Admission, AdmissionOptions, HotRules, Mode};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_postgres::SimpleQueryMessage;
use wirekit::waits::{keep_slots, state, until, waiting};

/// Starts a server with these rules that admits `mpl` transactions at a time.
fn real(mpl: u32, settings: &str, change: impl FnOnce(&mut AdmissionOptions)) -> (Real, Admission) {
    let mut gate = GateSettings::of_priorities(mpl);
    gate.knows_stalls = true;
    keep_slots(&mut gate);
    let mut options = AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() };
    change(&mut options);
    let admission = Admission::new(&options).unwrap();
    (Real::with(settings, |config| config.admission = admission.clone()), admission)
}

/// Returns the number of transactions that wait for hot keys.
fn held_back(admission: &Admission) -> usize {
    admission.view().unwrap().gate.classes.iter().map(|class| class.held_back).sum()
}

/// Runs these texts, in this order, while the only slot is taken. Returns the order in which they were completed, by
/// the times that they return.
async fn order_of(real: &Real, admission: &Admission, texts: &[&'static str]) -> Vec<&'static str> {
    let holder = real.client().await;
    holder.batch_execute("begin; select 1").await.unwrap();
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for (at, &text) in texts.iter().enumerate() {
        let (client, done) = (real.client().await, Arc::clone(&done));
        tasks.push(tokio::spawn(async move {
            let at: String = if text.contains("/*") {
                let said = client.simple_query(text).await.unwrap();
                let row = said.into_iter().find_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                    _ => None,
                });
                row.unwrap()
            } else {
                client.query_one(text, &[]).await.unwrap().get(0)
            };
            done.lock().unwrap().push((at, text));
        }));
        until("it waits", || waiting(admission) == at + 1).await;
    }
    holder.batch_execute("commit").await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let mut done = Arc::into_inner(done).unwrap().into_inner().unwrap();
    done.sort();
    done.into_iter().map(|(_, text)| text).collect()
}

pub fn rules_look_at_tags_and_fingerprints() {
    let rules =
        "overtake.priority_rules = high tag.action=pay%; low fingerprint=\"select clock_timestamp()::text, 1 as low\"";
    let (real, admission) = real(1, rules, |_| {});
    let pays = "begin; select clock_timestamp()::text /*action='pay%20out'*/; select 1; commit";
    let texts = ["SELECT clock_timestamp()::text, 7 AS low", "select clock_timestamp()::text, 'first'", pays];
    real.runtime.block_on(async {
        let done = order_of(&real, &admission, &texts).await;
        assert_eq!(done, [texts[2], texts[1], texts[0]]);
    });
    until_empty(&real, &admission);
}

pub fn the_shortest_expected_goes_first() {
    let (real, admission) = real(1, "", |options| {
        options.gate.classes[1].order = AdmissionOrder::ShortestExpected { patience: 1e6 };
    });
    real.runtime.block_on(async {
        let client = real.client().await;
        for number in 0..20 {
            client.query(&format!("select clock_timestamp()::text, pg_sleep(0.0{}1)", number % 2), &[]).await.unwrap();
            client.query(&format!("select clock_timestamp()::text, {number}"), &[]).await.unwrap();
        }
        let texts = ["select clock_timestamp()::text, pg_sleep(0.01)", "select clock_timestamp()::text, 3"];
        assert_eq!(order_of(&real, &admission, &texts).await, [texts[1], texts[0]]);
    });
    until_empty(&real, &admission);
}

pub fn who_would_meet_at_a_row_waits_outside() {
    let (real, admission) = real(10, "", |options| {
        options.hot = HotRules::parse("a: update t set n = n + $1 where id = $key").unwrap();
    });
    real.runtime.block_on(async {
        let holder = real.client().await;
        holder
            .batch_execute("create table t (id int primary key, n int); insert into t values (7, 0), (8, 0)")
            .await
            .unwrap();
        let update = "update t set n = n + $1 where id = $2";
        // By a tag, by SET LOCAL after BEGIN, by the value of a parameter, by a value in the text.
        for begin in ["begin; select 1 /*hot_key='a%3A7'*/", "begin; set local overtake.hot_key = 'a:7'; select 1"] {
            holder.batch_execute(begin).await.unwrap();
            let (by_parameter, by_text) = (real.client().await, real.client().await);
            let tasks = [
                tokio::spawn(async move { by_parameter.execute(update, &[&1, &7]).await.unwrap() }),
                tokio::spawn(async move {
                    by_text.batch_execute("UPDATE t SET n = n + 5 WHERE id = 7").await.unwrap();
                    1
                }),
            ];
            until("both wait", || held_back(&admission) == 2).await;
            // Another row has another key, and so has a session that sets one.
            let other = real.client().await;
            other.execute(update, &[&1, &8]).await.unwrap();
            other.batch_execute("set overtake.hot_key = 'a:9'; update t set n = n + 1 where id = 7").await.unwrap();
            let row = other.query_one("select held_back from overtake.gate where class = 'normal'", &[]).await.unwrap();
            assert_eq!(row.get::<_, i64>(0), 2);
            holder.batch_execute("commit").await.unwrap();
            for task in tasks {
                assert_eq!(task.await.unwrap(), 1);
            }
        }
        let row = holder.query_one("select held_back_total from overtake.mpl", &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 4);
        let row = holder.query_one("select n from t where id = 7", &[]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), 14);
    });
    until_empty(&real, &admission);
}

pub fn a_wait_at_the_gate_is_part_of_the_time() {
    let (real, admission) = narrow(keep_slots);
    real.runtime.block_on(async {
        let (holder, client) = (real.client().await, real.client().await);
        holder.batch_execute("begin; select 1").await.unwrap();
        // Statements that need no admission do not wait.
        client.batch_execute("set statement_timeout = '30ms'; begin; show statement_timeout; commit").await.unwrap();
        let error = client.batch_execute("select 2").await.unwrap_err();
        assert_eq!(state(&error), "57014");
        let error = error.as_db_error().unwrap();
        assert_eq!(error.message(), "canceling statement due to statement timeout");
        assert!(error.detail().unwrap().contains("at the gate"), "{error:?}");
        assert_eq!(waiting(&admission), 0);
        // lock_timeout does not count the wait, which is part of the statement's time.
        let client = real.client().await;
        client.batch_execute("set statement_timeout = '3s'; set lock_timeout = '10ms'").await.unwrap();
        let begun = Instant::now();
        let sleeps = tokio::spawn(async move { client.batch_execute("select pg_sleep(60)").await });
        until("it has waited for most of its time", || Duration::from_secs(2) <= begun.elapsed()).await;
        assert_eq!(waiting(&admission), 1);
        holder.batch_execute("commit").await.unwrap();
        let error = sleeps.await.unwrap().unwrap_err();
        assert_eq!(error.as_db_error().unwrap().message(), "canceling statement due to statement timeout");
        assert!(begun.elapsed() < Duration::from_millis(4_800), "{:?}", begun.elapsed());
    });
    until_empty(&real, &admission);
}

pub fn the_gate_is_told_something_else() {
    let (real, admission) = real(1, "", |_| {});
    real.runtime.block_on(async {
        let (holder, client) = (real.client().await, real.client().await);
        holder.batch_execute("begin; select 1").await.unwrap();
        let waits = tokio::spawn(async move { client.batch_execute("select 2").await });
        until("it waits", || waiting(&admission) == 1).await;
        let options = |mpl: u32| {
            let mut gate = GateSettings::of_priorities(mpl);
            keep_slots(&mut gate);
            AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() }
        };
        // Options that make no valid gate leave it as it was.
        let mut wrong = options(2);
        wrong.gate.classes[0].weight = 0;
        assert!(admission.change(&wrong).is_err());
        assert_eq!((waiting(&admission), admission.change(&AdmissionOptions::default())), (1, Ok(false)));
        assert_eq!(admission.change(&options(2)), Ok(true));
        waits.await.unwrap().unwrap();
        holder.batch_execute("commit").await.unwrap();
        // A new bound on waits applies to transactions that come later.
        let mut bounded = options(1);
        bounded.gate.classes[1].wait_max = Some(Duration::from_millis(10));
        admission.change(&bounded).unwrap();
        let client = real.client().await;
        holder.batch_execute("begin; select 1").await.unwrap();
        assert_eq!(state(&client.batch_execute("select 2").await.unwrap_err()), "57014");
        holder.batch_execute("commit").await.unwrap();
    });
    until_empty(&real, &admission);
}
