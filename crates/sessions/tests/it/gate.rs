//! The admission gate before this server's engine: waits, admissions, and no slot that is left behind.

use crate::real::Real;
use ::gate::GateSettings;
use server::{Admission, AdmissionOptions, Mode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::{AsyncMessage, Client, NoTls};
use wirekit::raw::{message, query};
use wirekit::waits::{keep_slots, state, until, waiting};

/// Starts a server that admits one transaction at a time.
pub fn narrow(change: impl FnOnce(&mut GateSettings)) -> (Real, Admission) {
    let mut gate = GateSettings::of_priorities(1);
    gate.knows_stalls = true;
    change(&mut gate);
    let admission =
        Admission::new(&AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() }).unwrap();
    (Real::with("", |config| config.admission = admission.clone()), admission)
}

pub fn one_at_a_time_and_the_important_first() {
    let (real, admission) = narrow(keep_slots);
    real.runtime.block_on(async {
        let holder = real.client().await;
        holder.batch_execute("create table t (a int, at timestamptz)").await.unwrap();
        holder.batch_execute("begin; insert into t values (0, clock_timestamp())").await.unwrap();
        let mut sessions = Vec::new();
        for (at, class) in ["low", "normal", "high"].iter().enumerate() {
            let client = Arc::new(real.client().await);
            let text = format!("/*+ priority={class} */ insert into t values ({}, clock_timestamp())", at + 1);
            let task = {
                let client = Arc::clone(&client);
                tokio::spawn(async move { client.batch_execute(&text).await })
            };
            until("it waits", || waiting(&admission) == at + 1).await;
            sessions.push((client, task));
        }
        holder.batch_execute("commit").await.unwrap();
        for (_, task) in sessions {
            task.await.unwrap().unwrap();
        }
        let rows = holder.query("select a from t order by at", &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [0, 3, 2, 1]);
    });
    until_empty(&real, &admission);
}

/// Waits until no transaction is admitted, and none waits.
pub fn until_empty(real: &Real, admission: &Admission) {
    real.runtime.block_on(until("nobody is inside", || {
        let view = admission.view().unwrap().gate;
        view.slots == 0 && view.transactions == 0 && view.extras == 0
    }));
}

pub fn who_waits_can_be_cancelled_or_go() {
    let (real, admission) = narrow(keep_slots);
    real.runtime.block_on(async {
        let holder = real.client().await;
        holder.batch_execute("begin; select 1").await.unwrap();
        let client = Arc::new(real.client().await);
        let statement = {
            let client = Arc::clone(&client);
            tokio::spawn(async move { client.batch_execute("select 2").await })
        };
        until("it waits", || waiting(&admission) == 1).await;
        client.cancel_token().cancel_query(NoTls).await.unwrap();
        assert_eq!(state(&statement.await.unwrap().unwrap_err()), "57014");
        until("it has left", || waiting(&admission) == 0).await;
        // A client that disconnects is noticed while it waits.
        let config = real.address_parameters();
        let (gone, connection): (Client, _) = tokio_postgres::connect(&config, NoTls).await.unwrap();
        let connection = tokio::spawn(async { drop(connection.await) });
        let task = tokio::spawn(async move { gone.batch_execute("select 3").await });
        until("it waits", || waiting(&admission) == 1).await;
        connection.abort();
        assert!(task.await.unwrap().unwrap_err().is_closed());
        until("it has left", || waiting(&admission) == 0).await;
        // The session whose statement was cancelled goes on.
        holder.batch_execute("commit").await.unwrap();
        client.batch_execute("select 4").await.unwrap();
    });
    until_empty(&real, &admission);
}

pub fn who_dies_inside_leaves() {
    let (real, admission) = narrow(keep_slots);
    real.runtime.block_on(async {
        for text in ["begin; select 1", "begin; select 1/0", "begin; create table u (a int)"] {
            let holder = real.client().await;
            // The test does not depend on whether it fails.
            drop(holder.batch_execute(text).await);
            drop(holder);
            real.client().await.batch_execute("select 2").await.unwrap();
        }
        // An error outside of a transaction block ends the transaction, too.
        let client = real.client().await;
        for _ in 0..3 {
            assert_eq!(state(&client.batch_execute("select 1/0").await.unwrap_err()), "22012");
        }
        client.query("select 1", &[]).await.unwrap();
    });
    until_empty(&real, &admission);
}

pub fn an_idle_transaction_lends_its_slot() {
    let (real, admission) = narrow(|gate| gate.lend_after = Some(Duration::from_millis(5)));
    real.runtime.block_on(async {
        let holder = real.client().await;
        holder.batch_execute("create table t (a int primary key)").await.unwrap();
        holder.batch_execute("begin; insert into t values (1)").await.unwrap();
        real.client().await.batch_execute("select 2").await.unwrap();
        holder.batch_execute("insert into t values (2); commit").await.unwrap();
        assert!(0 < admission.view().unwrap().gate.counters.lent);
    });
    until_empty(&real, &admission);
}

/// A client that reads nothing lends its slot, can be ended, and gets all of its result when it reads.
pub fn who_reads_nothing_lends_its_slot() {
    let (real, admission) = narrow(|gate| {
        (gate.lend_after, gate.stall_patience) = (Some(Duration::from_millis(5)), None);
    });
    let large = wirekit::waits::large();
    let lent = || admission.view().unwrap().gate.classes.iter().map(|class| class.lent).sum::<usize>();
    let mut slow = real.raw_client();
    slow.send(&query(&large));
    real.runtime.block_on(until("the slot is lent", || lent() == 1));
    let mut copies = real.raw_client();
    copies.send(&query(&format!("copy ({large}) to stdout")));
    real.runtime.block_on(async {
        until("both slots are lent", || lent() == 2).await;
        let other = real.client().await;
        other.batch_execute("select 7").await.unwrap();
        let ended = other.query_one("select pg_terminate_backend($1)", &[&copies.pid]).await.unwrap();
        assert!(ended.get::<_, bool>(0));
        until("it has ended", || lent() == 1).await;
    });
    wirekit::waits::reads_all(&mut slow, || {});
    assert_eq!(slow.answer(), "Z(I)");
    until_empty(&real, &admission);
}

/// A request is answered even if the client sends `Terminate` right after it.
pub fn who_says_good_bye_at_once_is_answered() {
    let real = Real::new();
    let mut raw = real.raw_client();
    raw.send(&[query("select 1 as a"), message(b'X', b"")].concat());
    assert_eq!(raw.answer(), "T(a:23:0) D(1) C(SELECT 1) Z(I)");
    assert_eq!(raw.next(), None);
}

pub fn who_is_waited_for_inside_gets_an_extra_slot() {
    let (real, admission) = narrow(|gate| gate.lend_after = Some(Duration::from_millis(5)));
    real.runtime.block_on(async {
        let holder = real.client().await;
        holder.batch_execute("create table t (a int primary key); insert into t values (1)").await.unwrap();
        holder.batch_execute("begin; update t set a = 2").await.unwrap();
        // The waiter takes the slot that is lent, and waits for the row of the lender.
        let waiter = real.client().await;
        let task = tokio::spawn(async move { waiter.batch_execute("update t set a = 3").await });
        until("it is inside", || {
            admission.view().unwrap().gate.classes[1].lent == 1 && admission.view().unwrap().gate.slots == 1
        })
        .await;
        holder.batch_execute("commit").await.unwrap();
        task.await.unwrap().unwrap();
        let counters = admission.view().unwrap().gate.counters;
        assert_eq!(counters.extra, 1, "{counters:?}");
    });
    until_empty(&real, &admission);
}

pub fn who_is_turned_away_is_told_why() {
    let (real, admission) = narrow(|gate| {
        keep_slots(gate);
        gate.classes[2].wait_max = Some(Duration::from_millis(5));
        gate.classes[1].queue_max = Some(0);
    });
    real.runtime.block_on(async {
        let holder = real.client().await;
        holder.batch_execute("begin; select 1").await.unwrap();
        let config = real.address_parameters();
        let (client, mut connection): (Client, _) = tokio_postgres::connect(&config, NoTls).await.unwrap();
        let (sender, mut notices) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message {
                    drop(sender.send(notice));
                }
            }
        });
        for (class, code) in [("low", "57014"), ("normal", "53300")] {
            let error = client.batch_execute(&format!("/*+ priority={class} */ select 2")).await.unwrap_err();
            assert_eq!(state(&error), code);
            let notice = notices.recv().await.unwrap();
            assert_eq!(notice.message(), format!("transaction of class \"{class}\" was turned away"));
            assert!(notice.detail().unwrap().contains("to go before it."), "{notice:?}");
        }
        holder.batch_execute("commit").await.unwrap();
        client.batch_execute("select 2").await.unwrap();
    });
    until_empty(&real, &admission);
}

pub fn who_runs_for_too_long_is_cancelled() {
    let (real, admission) = narrow(|gate| {
        let reaction = ::gate::Reaction::Cancel;
        gate.classes[1].runaway = Some(::gate::Runaway { after: Duration::from_millis(20), reaction });
    });
    real.runtime.block_on(async {
        let client = real.client().await;
        let error = client.batch_execute("select pg_sleep(60)").await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "57014");
        assert_eq!(error.message(), "canceling statement due to the runaway limit of class \"normal\"");
        assert!(error.detail().unwrap().ends_with("; 20 ms are the limit."), "{error:?}");
        assert!(error.hint().unwrap().contains("overtake.gate_classes"), "{error:?}");
        // A transaction that waits for its client uses no run time.
        client.batch_execute("begin; select 1").await.unwrap();
        until("its slot is lent", || admission.view().unwrap().gate.counters.lent == 1).await;
        client.batch_execute("select 2; commit").await.unwrap();
        assert_eq!(admission.view().unwrap().gate.counters.cancelled, 1);
    });
    until_empty(&real, &admission);
}

pub fn the_gate_shows_itself() {
    let (real, _) = narrow(|_| {});
    real.runtime.block_on(async {
        let client = real.client().await;
        for _ in 0..1_100 {
            client.batch_execute("select 1").await.unwrap();
        }
        let ask = async |text: &str| client.query_one(text, &[]).await.unwrap();
        let row = ask("select mode, mpl, phase, slots, transactions, lent_total from overtake.mpl").await;
        let (mode, mpl, phase): (String, i64, Option<String>) = (row.get(0), row.get(1), row.get(2));
        // The transaction of this query is admitted itself.
        assert_eq!((&*mode, mpl, phase, row.get::<_, i64>(3), row.get::<_, i64>(4)), ("fixed", 1, None, 1, 1));
        let row =
            ask("select done, waiting, wait_p50_ms, inside_p50_ms from overtake.gate where class = 'normal'").await;
        assert!(1_100 <= row.get::<_, i64>(0) && row.get::<_, i64>(1) == 0);
        assert!(0.0 < row.get::<_, f64>(3) && row.get::<_, f64>(2) < row.get::<_, f64>(3));
        // The server's own clock shows what the transactions used.
        let row = ask("select share, demand_ms, source from overtake.gate_resources where dominates").await;
        assert!(0.5 < row.get::<_, f64>(0) && 0.0 < row.get::<_, f64>(1) && row.get::<_, &str>(2) == "stage clock");
        let row = ask("select dominating, source from overtake.mpl").await;
        assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("processor", "stage clock"));
        let row = ask("select count(*), bool_or(is_enough) from overtake.mpl_forecast where 0 < first_ms").await;
        assert!(0 < row.get::<_, i64>(0) && row.get::<_, bool>(1));
        let row = ask("select mode, verdict, mpl from overtake.mpl_verdict").await;
        let (verdict, mpl): (String, i64) = (row.get(1), row.get(2));
        assert_eq!((row.get(0), verdict), ("fixed", format!("MPL 1 is in force; MPL {mpl} would be the lowest that costs almost nothing.")));
        assert_eq!(ask("select count(*) from overtake.mpl_log").await.get::<_, i64>(0), 0);
        let row = ask(
            "select sum(count)::int8, bool_and(lower_us < upper_us and 0 < count) from overtake.gate_histogram
             where class = 'normal' and what = 'inside'",
        )
        .await;
        assert!(1_100 <= row.get::<_, i64>(0) && row.get::<_, bool>(1));
        // A point is recorded each second.
        let begun = Instant::now();
        let past = "select count(*), max(mpl), sum(throughput * seconds), bool_and(0 <= seconds_ago and response_ms is not null)
                    from overtake.mpl_history where 0 < throughput";
        loop {
            let row = ask(past).await;
            if 0 < row.get::<_, i64>(0) {
                assert!(row.get::<_, i64>(1) == 1 && 1.0 <= row.get::<_, f64>(2) && row.get::<_, bool>(3));
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "there is no history");
        }
        let row = ask("select count from overtake.stages where class = 'normal' and stage = 'gate'").await;
        assert!(1_100 <= row.get::<_, i64>(0));
    });
}
