//! An ordinary driver.

use crate::real::{Real, rows};
use server::HbaRule;
use settings::roles::Role;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};
use wire::scram::Verifier;

async fn connect(real: &Real, user: &str, password: &str) -> Result<Client, tokio_postgres::Error> {
    let mut config = Config::new();
    config
        .host(real.address.ip().to_string())
        .port(real.address.port())
        .user(user)
        .dbname("postgres")
        .password(password);
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(async { drop(connection.await) });
    Ok(client)
}

pub fn scram_sha_256() {
    let real = Real::with("", |config| {
        config.rules = HbaRule::parse_all("host all all all scram-sha-256").unwrap();
        let role = |password| {
            let password = Some(Verifier::new(password).unwrap().to_string());
            Role { may_log_in: true, password, ..Role::default() }
        };
        config.roles.put("ann", role("pencil"));
        // Password preparation maps U+2168 to `IX`.
        config.roles.put("bob", role("I\u{ad}X"));
    });
    real.runtime.block_on(async {
        for (user, password) in [("ann", "pencil"), ("bob", "\u{2168}"), ("bob", "IX")] {
            let client = connect(&real, user, password).await.unwrap();
            assert_eq!(client.execute(&rows(4), &[]).await.unwrap(), 4);
        }
        for (user, password) in [("ann", "pen"), ("ghost", "pencil"), ("postgres", "")] {
            let error = connect(&real, user, password).await.err().unwrap();
            let error = error.as_db_error().unwrap();
            assert_eq!(error.code().code(), "28P01");
            assert_eq!(error.message(), format!("password authentication failed for user \"{user}\""));
        }
    });
}

pub fn simple_and_extended_queries() {
    let real = Real::new();
    real.runtime.block_on(async {
        let mut client = connect(&real, "postgres", "").await.unwrap();
        client.batch_execute("create table t (n int primary key)").await.unwrap();
        let found = client.query(&rows(1000), &[]).await.unwrap();
        assert_eq!((found.len(), found[9].get::<_, i32>(0), found[9].get::<_, &str>(1)), (1000, 10, "row 10"));
        let echo = client.prepare_typed("select $1, $2", &[tokio_postgres::types::Type::INT4]).await.unwrap();
        let row = client.query_one(&echo, &[&-7, &"text"]).await.unwrap();
        assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (-7, "text"));
        let row = client.query_one(&echo, &[&None::<i32>, &None::<&str>]).await.unwrap();
        assert_eq!((row.get::<_, Option<i32>>(0), row.get::<_, Option<&str>>(1)), (None, None));
        let messages = client.simple_query(&format!("{}; insert into t values (1), (2)", rows(1))).await.unwrap();
        assert!(matches!(
            messages[..],
            [
                SimpleQueryMessage::RowDescription(_),
                SimpleQueryMessage::Row(_),
                SimpleQueryMessage::CommandComplete(1),
                SimpleQueryMessage::CommandComplete(2),
            ]
        ));
        let error = client.execute("insert into t values (1)", &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!((error.code().code(), error.detail()), ("23505", Some("Key (n)=(1) already exists.")));
        let error = client.execute("select f(1)", &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        let hint = "No function matches the given name and argument types. You might need to add explicit type casts.";
        assert_eq!((error.code().code(), error.hint()), ("42883", Some(hint)));
        // Pipelined.
        let all = (1..=100).map(|n| {
            let (client, echo) = (&client, &echo);
            async move { client.query_one(echo, &[&n, &"x"]).await }
        });
        for (n, row) in (1..).zip(join(all).await) {
            assert_eq!(row.unwrap().get::<_, i32>(0), n);
        }
        // A portal with a row limit, in a transaction.
        let transaction = client.transaction().await.unwrap();
        let portal = transaction.bind(&rows(5), &[]).await.unwrap();
        for count in [2, 2, 1, 0] {
            assert_eq!(transaction.query_portal(&portal, 2).await.unwrap().len(), count);
        }
        transaction.commit().await.unwrap();
        let cancel = client.cancel_token();
        let holder = real.client().await;
        holder.batch_execute("begin; delete from t").await.unwrap();
        let parked = client.execute("delete from t", &[]);
        let cancelled = async {
            real.until("it waits", |engine| engine.locks().iter().any(|lock| !lock.granted)).await;
            cancel.cancel_query(NoTls).await.unwrap();
        };
        let (parked, ()) = tokio::join!(parked, cancelled);
        assert_eq!(parked.unwrap_err().code().unwrap().code(), "57014");
    });
}

/// Awaits all futures concurrently.
async fn join<T: Send + 'static>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
