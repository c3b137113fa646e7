//! Connection to a server.

use anyhow::Context;
use locked::Locked;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, SimpleQueryMessage};
use top::{Encryption, Target};

/// Connection that collects notices; it must live in a tokio runtime.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    notices: Arc<Mutex<Vec<DbError>>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Answer to a statement.
#[derive(Debug)]
pub(crate) struct StatementAnswer {
    pub notices: Vec<DbError>,
    pub outcome: Result<Vec<SimpleQueryMessage>, DbError>,
}

impl Session {
    /// Connects to a server that the user has named.
    pub(crate) async fn to_target(target: &Target) -> anyhow::Result<Session> {
        let mut config = target.config();
        config.application_name("overtake proc");
        let told = || format!("cannot connect to {target}");
        match target.encryption() {
            Some(tls) => {
                let (client, connection) = config.connect(Encryption::new(tls)).await.with_context(told)?;
                Ok(Session::new(client, connection))
            }
            None => Session::plain(&config).await.with_context(told),
        }
    }

    /// Connects without encryption.
    pub(crate) async fn plain(config: &Config) -> Result<Session, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        Ok(Session::new(client, connection))
    }

    fn new<S, T>(client: Client, connection: Connection<S, T>) -> Session
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let notices = Arc::default();
        let driver = tokio::spawn(drive(connection, Arc::clone(&notices)));
        Session { client, driver, notices }
    }

    /// Executes a statement.
    ///
    /// # Errors
    /// Fails if the connection is lost. An error of the statement is part of the answer.
    pub(crate) async fn execute(&self, statement: &str) -> anyhow::Result<StatementAnswer> {
        let outcome = match self.client.simple_query(statement).await {
            Ok(messages) => Ok(messages),
            Err(error) => match error.as_db_error() {
                Some(error) => Err(error.clone()),
                None => return Err(error).context("the connection to the server is lost"),
            },
        };
        let notices = std::mem::take(&mut *self.notices.locked_anyway());
        Ok(StatementAnswer { notices, outcome })
    }
}

async fn drive<S, T>(mut connection: Connection<S, T>, notices: Arc<Mutex<Vec<DbError>>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message {
            notices.locked_anyway().push(notice);
        }
    }
}
