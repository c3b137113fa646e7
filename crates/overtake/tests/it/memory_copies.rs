//! Goal: data of COPY, in and out, count like all other memory: clients that send lines without end, or do not read,
//! are refused, and the process lives. Method: as in `memory`, in a control group of 700 MB.

use crate::memory::{GROUP_MB, Group, SmallStatements, in_a_group, is_refusal, peak_mb};
use crate::serve::{connect, runtime, serve_by, value};
use bytes::Bytes;
use futures::SinkExt;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Barrier;
use tokio_postgres::{Client, CopyInSink};

const MB: usize = 1 << 20;

/// Sends data of a COPY without the end of a line, and when all others have done so, too, an end that is wrong. Returns
/// true if there was no room for the line.
async fn is_refused(client: &Client, copy: &str, data: &Bytes, all_sent: &Barrier) -> bool {
    let sink: CopyInSink<Bytes> = client.copy_in(copy).await.unwrap();
    let mut sink = pin!(sink);
    for _ in 0..10 {
        // The client learns of an error at the end.
        sink.send(data.clone()).await.unwrap();
    }
    all_sent.wait().await;
    sink.send(Bytes::from_static(b",\tone too many\n")).await.unwrap();
    let error = sink.finish().await.unwrap_err();
    if error.code().is_some_and(|code| code.code() == "22P04") {
        return false;
    }
    is_refusal(&error, copy);
    true
}

/// A line of delimiters has as many fields as bytes, and a line may never end; answers of many clients that do not read wait in
/// memory. Each is refused in time, and small statements of another session go on.
pub fn copies_fit_a_small_control_group() {
    let (group, command) = in_a_group();
    let (mut program, url) = serve_by(command);
    let process = program.0.id();
    let told = |what: &str| {
        let peak = peak_mb(process);
        eprintln!("{what}: {peak} MB at most");
        assert!(peak <= GROUP_MB, "{what}");
    };
    runtime().block_on(async {
        let client = connect(&url).await;
        let tables = "create table small (id int primary key, n int); insert into small values (1, 0); \
                      create table two (a text, b text); create table wide (t text); \
                      insert into wide select repeat('w', 100000) from generate_series(1, 200)";
        client.batch_execute(tables).await.unwrap();
        let small = SmallStatements::start(&url);
        for (copy, delimiters) in [("copy two from stdin", "\t"), ("copy two from stdin csv", ",")] {
            let sink: CopyInSink<Bytes> = client.copy_in(copy).await.unwrap();
            let mut sink = pin!(sink);
            let data = Bytes::from(delimiters.repeat(MB));
            for _ in 0..20 {
                sink.send(data.clone()).await.unwrap();
            }
            let error = sink.finish().await.unwrap_err();
            let error = error.as_db_error().unwrap();
            assert_eq!(
                (error.code().code(), error.message()),
                ("22P04", "extra data after last expected column"),
                "{copy}"
            );
            told(copy);
        }
        for (copy, bytes) in [("copy wide from stdin", "x"), ("copy wide from stdin csv", "\"a")] {
            let data = Bytes::from(bytes.repeat(MB / bytes.len()));
            let (mut all, all_sent) = (Vec::new(), Arc::new(Barrier::new(100)));
            for _ in 0..100 {
                let (other, data, all_sent) = (connect(&url).await, data.clone(), Arc::clone(&all_sent));
                all.push(tokio::spawn(async move { is_refused(&other, copy, &data, &all_sent).await }));
            }
            let mut refused = 0;
            for one in all {
                refused += usize::from(one.await.unwrap());
            }
            told(copy);
            eprintln!("{refused} of 100 lines without end were refused");
            assert!(0 < refused, "{copy}: a gigabyte has found room");
        }
        assert_eq!(value(&client, "select count(*) from wide").await, "200");
        // Each answer that nobody reads takes a queue's worth.
        let mut open = Vec::new();
        for _ in 0..60 {
            let other = connect(&url).await;
            let stream = other.copy_out("copy (select t from wide) to stdout").await.unwrap();
            open.push((other, stream));
        }
        told("COPY TO");
        drop(open);
        small.end(&client).await;
    });
    Group::has_lived(group.as_ref());
    let (status, log) = program.interrupted();
    assert!(status.success(), "{status} {log}");
}
