//! State of one client never reaches another.

use crate::support::{Front, value};
use wirekit::raw::query;

/// Two hundred clients over four connections: each gets its own answers, by either protocol, with errors between.
pub fn many_clients_few_connections() {
    let Some(front) = Front::new(4) else { return };
    front.runtime.block_on(async {
        let mut tasks = Vec::new();
        for number in 0..200_i32 {
            let client = front.client().await;
            tasks.push(tokio::spawn(async move {
                let mut client = client;
                let echo = client.prepare("select $1::int4, $2::text").await.unwrap();
                for turn in 0..20 {
                    let row = client.query_one(&echo, &[&number, &format!("{number}.{turn}")]).await.unwrap();
                    assert_eq!((row.get::<_, i32>(0), row.get::<_, String>(1)), (number, format!("{number}.{turn}")));
                    assert_eq!(value(&client, &format!("select {number} * 2")).await, (number * 2).to_string());
                    if turn % 5 == number % 5 {
                        assert!(client.simple_query(&format!("select {number}/0")).await.is_err());
                    }
                    if turn % 7 == 0 {
                        let transaction = client.transaction().await.unwrap();
                        transaction
                            .execute("select set_config('app.n', $1, true)", &[&number.to_string()])
                            .await
                            .unwrap();
                        tokio::task::yield_now().await;
                        let row = transaction.query_one("select current_setting('app.n')", &[]).await.unwrap();
                        assert_eq!(row.get::<_, String>(0), number.to_string());
                        transaction.commit().await.unwrap();
                    }
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert!(front.all_idle() <= 4);
}

/// No other client sees a transaction until it commits, and its connection is its own.
pub fn a_transaction_keeps_its_connection() {
    let Some(front) = Front::new(2) else { return };
    let (mut one, mut two) = (front.raw(), front.raw());
    assert_eq!(one.ask(&query("create table t (a int)")), "C(CREATE TABLE) Z(I)");
    assert_eq!(one.ask(&query("begin; insert into t values (1)")), "C(BEGIN) C(INSERT 0 1) Z(T)");
    for _ in 0..10 {
        assert_eq!(two.ask(&query("select count(*) as n from t")), "T(n:20:0) D(0) C(SELECT 1) Z(I)");
    }
    assert_eq!(one.ask(&query("select count(*) as n from t")), "T(n:20:0) D(1) C(SELECT 1) Z(T)");
    assert_eq!(one.ask(&query("commit")), "C(COMMIT) Z(I)");
    assert_eq!(two.ask(&query("select count(*) as n from t")), "T(n:20:0) D(1) C(SELECT 1) Z(I)");
    assert_eq!(front.all_idle(), 2);
}
