//! The stage clock: views, metrics and `EXPLAIN (ANALYZE, STAGES)` say where the time of statements goes.

use crate::gate::narrow;
use crate::real::Real;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, SimpleQueryMessage};
use wirekit::raw::{bind, execute, message, parse, query, sync};
use wirekit::waits::http;

/// Returns the first column of the rows.
async fn column(client: &Client, text: &str) -> Vec<String> {
    let answer = client.simple_query(text).await.unwrap();
    let row = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    };
    answer.into_iter().filter_map(row).collect()
}

/// Returns the time that a statement has spent in a stage, in milliseconds.
async fn spent(client: &Client, query: &str, stage: &str) -> f64 {
    let text = format!(
        "select coalesce(sum(total_ms), 0) from overtake.statement_stages where query = '{query}' and stage = '{stage}'"
    );
    column(client, &text).await[0].parse().unwrap()
}

const HELD: Duration = Duration::from_millis(300);

pub fn a_plan_is_made_once() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        client.batch_execute("create table t (id int primary key, n int); insert into t values (1, 1)").await.unwrap();
        let text = "select n from t where id = $1";
        let statement = client.prepare(text).await.unwrap();
        client.query(&statement, &[&1]).await.unwrap();
        let planned = spent(&client, text, "plan").await;
        assert!(0.0 < planned && 0.0 < spent(&client, text, "parse").await);
        assert_eq!(spent(&client, text, "plan_cached").await, 0.0);
        for _ in 0..20 {
            client.query(&statement, &[&1]).await.unwrap();
        }
        assert_eq!(spent(&client, text, "plan").await, planned);
        for stage in ["network_read", "decode", "plan_cached", "run", "encode", "network_write"] {
            assert!(0.0 < spent(&client, text, stage).await, "{stage}");
        }
        assert_eq!(spent(&client, text, "gate").await + spent(&client, text, "lock_wait").await, 0.0);
        // A change of the catalog makes another plan. All of its time may count as preempted, but not each time.
        let mut tries = 0;
        while spent(&client, text, "plan").await <= planned {
            assert!(tries < 20, "no plan was made");
            tries += 1;
            client.batch_execute("create index on t (n)").await.unwrap();
            client.query(&statement, &[&1]).await.unwrap();
        }
    });
}

/// Goal: a plan belongs to its statement, although `Execute` comes in another packet than `Bind`.
pub fn a_plan_at_bind_belongs_to_its_statement() {
    let real = Real::new();
    let mut raw = real.raw_client_after("create table t (id int primary key, n int)");
    let text = "select n from t where id = $1";
    raw.send(&[parse("s", text, &[23]), sync()].concat());
    assert_eq!(raw.answer(), "1 Z(I)");
    let bind = bind("", "s", &[1], &[Some(&1_i32.to_be_bytes())], &[1]);
    let mut booked = 0;
    for _ in 0..10 {
        let planned = real.runtime.block_on(async {
            let client = real.client().await;
            client.batch_execute("create index on t (n)").await.unwrap();
            spent(&client, text, "plan").await
        });
        raw.send(&[bind.clone(), message(b'H', &[])].concat());
        assert_eq!(raw.next().as_deref(), Some("2"));
        raw.send(&[execute("", 0), sync()].concat());
        assert!(raw.answer().ends_with("Z(I)"));
        raw.ask(&query("select 1"));
        let again = real.runtime.block_on(async { spent(&real.client().await, text, "plan").await });
        booked += usize::from(planned < again);
    }
    // All of the time of one plan may count as preempted.
    assert!(5 <= booked, "{booked} of 10 plans");
}

pub fn waits_are_no_work() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (one, two) = (real.client().await, real.client().await);
        one.batch_execute("create table t (id int primary key); insert into t values (1)").await.unwrap();
        one.batch_execute("begin; select * from t where id = 1 for update").await.unwrap();
        let waits = tokio::spawn(async move {
            two.execute("delete from t where id = 1", &[]).await.unwrap();
            two
        });
        real.until("it waits", |engine| engine.locks().iter().any(|lock| !lock.granted)).await;
        tokio::time::sleep(HELD).await;
        one.batch_execute("rollback").await.unwrap();
        let two = waits.await.unwrap();
        let text = "delete from t where id = $1";
        let (waited, run) = (spent(&two, text, "lock_wait").await, spent(&two, text, "run").await);
        // Until its session is told that it waits, it is on its way back from the thread that has run it.
        assert!(HELD.as_millis() as f64 <= waited * 2.0 && run < waited / 2.0, "waited {waited} ms, ran {run} ms");
        let kinds = "select stage from overtake.stages where class = 'normal' and is_waiting order by 1";
        let waits = ["crossing_wait", "dispatch", "gate", "lock_wait", "log_wait", "preempted"];
        assert_eq!(column(&two, kinds).await, waits);
    });
}

pub fn the_gate_is_a_stage() {
    let (real, _) = narrow(|_| {});
    real.runtime.block_on(async {
        let (one, two) = (real.client().await, Arc::new(real.client().await));
        one.batch_execute("create table t (a int)").await.unwrap();
        let sleeps = tokio::spawn(async move { one.batch_execute("select pg_sleep(0.3)").await.unwrap() });
        real.until("it sleeps", |engine| !engine.transactions().is_empty()).await;
        let begun = Instant::now();
        two.batch_execute("insert into t values (1)").await.unwrap();
        let took = begun.elapsed().as_secs_f64() * 1e3;
        sleeps.await.unwrap();
        let text = "insert into t values ($1)";
        let (gate, run) = (spent(&two, text, "gate").await, spent(&two, text, "run").await);
        assert!(took / 2.0 < gate && gate <= took && run < took / 2.0, "gate {gate} ms and run {run} ms of {took} ms");
    });
}

pub fn stages_are_the_whole() {
    let real = Real::new();
    real.runtime.block_on(async {
        let low = real.login("user=postgres options='-c overtake.priority=low'").await.unwrap();
        let other = real.client().await;
        let all = "select sum(total_ms) from overtake.stages where class = 'low'";
        // A row of the session that begins is booked when its first statement comes.
        low.batch_execute("select 1").await.unwrap();
        low.batch_execute("select 2").await.unwrap();
        let before: f64 = column(&other, all).await[0].parse().unwrap();
        let begun = Instant::now();
        low.batch_execute("select pg_sleep(0.3)").await.unwrap();
        low.simple_query("select n, repeat('x', 100) from generate_series(1, 20000) n").await.unwrap();
        low.batch_execute("select 3").await.unwrap();
        let took = begun.elapsed().as_secs_f64() * 1e3;
        let after: f64 = column(&other, all).await[0].parse().unwrap();
        let booked = after - before;
        assert!(300.0 <= booked && booked <= took + 5.0, "{booked} ms are booked of {took} ms");
        // It ran on another thread and was sent as it came.
        let text = "select n, repeat($1, $2) from generate_series($3, $4) n";
        for stage in ["dispatch", "run", "encode", "network_write"] {
            assert!(0.0 < spent(&other, text, stage).await, "{stage}");
        }
        let shares =
            "select round(sum(share)::numeric, 6) from overtake.stages where class = 'low' and transport = 'tcp'";
        assert_eq!(column(&other, shares).await, ["1.000000"]);
    });
}

pub fn explain_shows_stages() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        let lines = column(&client, "explain (analyze, stages, costs off, timing off) select 1").await;
        let line = lines.iter().find(|line| line.starts_with("Stages: ")).unwrap_or_else(|| panic!("{lines:?}"));
        let names: Vec<&str> =
            line.trim_start_matches("Stages: ").split(", ").filter_map(|part| part.split(' ').next()).collect();
        for stage in ["network_read", "parse", "plan", "run"] {
            assert!(names.contains(&stage), "{line}");
        }
        assert!(line.ends_with(" ms") && !names.contains(&"lock_wait"), "{line}");
        let json = column(&client, "explain (analyze, stages, format json) select 1").await.concat();
        let read = column(&client, &format!("select 0 < ('{json}'::json -> 0 -> 'Stages' ->> 'run')::float8")).await;
        assert_eq!(read, ["t"]);
        let plain = column(&client, "explain (analyze) select 1").await;
        assert!(!plain.iter().any(|line| line.starts_with("Stages")), "{plain:?}");
        let error = client.simple_query("explain (stages) select 1").await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!((error.code().code(), error.message()), ("22023", "EXPLAIN option STAGES requires ANALYZE"));
    });
}

pub fn the_clock_tells_its_cost() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let real = Real::with("", |config| config.metrics = Some(address));
    real.runtime.block_on(async {
        let client = real.login("user=postgres options='-c overtake.priority=high'").await.unwrap();
        for _ in 0..100 {
            client.query("select 1 as n", &[]).await.unwrap();
        }
        let known = "select source in ('tsc', 'monotonic') and 0 < stamp_ns and 500 < stamps and 100 < bookings
                     and 0 < overhead and overhead < 1 from overtake.stage_clock";
        assert_eq!(column(&client, known).await, ["t"]);
        let alike = "select count(distinct overhead) || ' ' || bool_and(0 < overhead and overhead < 1)
                     from overtake.stages where class = 'high'";
        assert_eq!(column(&client, alike).await, ["1 true"]);
    });
    let metrics = http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let labels = "class=\"high\",transport=\"tcp\",isolation=\"none\",stage=\"run\"";
    for name in [
        format!("overtake_stage_seconds_count{{{labels}}} "),
        format!("overtake_stage_seconds{{{labels},quantile=\"0.999\"}} "),
        "overtake_stage_overhead_ratio ".to_owned(),
        "overtake_stage_stamps_total ".to_owned(),
    ] {
        let value = metrics.split_once(&format!("\n{name}")).unwrap_or_else(|| panic!("{name}: {metrics}")).1;
        let value: f64 = value.lines().next().unwrap().parse().unwrap();
        assert!(0.0 < value, "{name}{value}");
    }
}

pub fn runs_have_parts() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.login("user=postgres options='-c overtake.priority=high'").await.unwrap();
        client.batch_execute("create table t (id int primary key, n int)").await.unwrap();
        let insert = client.prepare("insert into t values ($1, 1)").await.unwrap();
        let select = client.prepare("select n from t where id = $1").await.unwrap();
        for id in 0..300_i32 {
            client.execute(&insert, &[&id]).await.unwrap();
            client.query(&select, &[&id]).await.unwrap();
        }
        let of = "from overtake.run_parts where class = 'high'";
        let parts = column(&client, &format!("select part {of} and 0 < sampled_ms order by 1")).await;
        for part in ["commit", "index", "other", "versions"] {
            assert!(parts.contains(&part.to_owned()), "{parts:?}");
        }
        // Two of 600 transactions are no sample, and neither are all of them.
        let sampled = column(&client, &format!("select max(sampled) {of}")).await;
        assert!((5..=30).contains(&sampled[0].parse::<u64>().unwrap()), "{sampled:?}");
        let sums = format!(
            "select round(sum(share)::numeric, 6) || ' ' || (sum(total_ms) <= (select total_ms + 0.001
                            from overtake.stages where class = 'high' and stage = 'run')) {of}"
        );
        assert_eq!(column(&client, &sums).await, ["1.000000 true"]);
    });
}
