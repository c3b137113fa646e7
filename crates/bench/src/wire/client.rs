//! A connection, used by the thread that has it: for tables, loads and checks. Measured loads have connections of their
//! own.
//!
//! **Invariant:** an error has the server's SQLSTATE and message, and the statement that caused it.

use super::servers::MeasuredServer;
use anyhow::Context;
use futures::SinkExt;
use std::io::Cursor;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// Rows of text, as the simple protocol sends them.
pub type TextRows = Vec<Vec<Option<String>>>;

/// Connection with a runtime of its own.
pub struct Control {
    client: Client,
    runtime: Runtime,
}

/// Creates a runtime whose tasks run on the thread that calls it.
///
/// # Errors
/// If the kernel gives no event queue.
pub fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("the client's runtime")
}

/// Connects; the connection's task runs on the current runtime.
///
/// # Errors
/// Errors of the server or the network.
pub async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(|error| explain(&error))?;
    tokio::spawn(async move {
        // A client that waits for an answer is told of the error.
        let _ = connection.await;
    });
    Ok(client)
}

/// Returns an error of the driver with the server's message.
pub fn explain(error: &Error) -> anyhow::Error {
    match error.as_db_error() {
        Some(said) => {
            let detail = said.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
            anyhow::anyhow!("{} {}{detail}", said.code().code(), said.message())
        }
        None => {
            let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
            anyhow::anyhow!("{error}{source}")
        }
    }
}

/// Returns true if the server says that it does not support the feature (`0A000`).
pub fn is_unsupported(error: &Error) -> bool {
    error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED)
}

/// Returns true if the transaction may be tried again: serialisation failure or deadlock.
pub fn is_retryable(error: &Error) -> bool {
    matches!(error.code(), Some(code) if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED)
}

impl Control {
    /// Connects.
    ///
    /// # Errors
    /// Errors of the server or the network.
    pub fn connect(target: &MeasuredServer) -> anyhow::Result<Control> {
        let runtime = runtime()?;
        let client = runtime.block_on(connect(&target.url)).with_context(|| target.title)?;
        Ok(Control { client, runtime })
    }

    /// Runs a task over the connection and returns its result.
    ///
    /// # Errors
    /// Errors of the task.
    pub fn with<R>(&self, task: impl AsyncFnOnce(&Client) -> anyhow::Result<R>) -> anyhow::Result<R> {
        self.runtime.block_on(task(&self.client))
    }

    /// Runs statements without rows.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn batch(&self, text: &str) -> anyhow::Result<()> {
        let ran = self.runtime.block_on(self.client.batch_execute(text));
        ran.map_err(|error| explain(&error).context(text.chars().take(200).collect::<String>()))
    }

    /// Runs a statement that the server may not support. Returns its message of refusal (`0A000`), or `None` if it ran.
    ///
    /// # Errors
    /// Any other refusal.
    pub fn batch_if_supported(&self, text: &str) -> anyhow::Result<Option<String>> {
        match self.runtime.block_on(self.client.batch_execute(text)) {
            Ok(()) => Ok(None),
            Err(error) if is_unsupported(&error) => Ok(Some(format!("`{text}`: {}", explain(&error)))),
            Err(error) => Err(explain(&error).context(text.to_owned())),
        }
    }

    /// Returns the rows of a query.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn rows(&self, text: &str) -> anyhow::Result<TextRows> {
        self.runtime.block_on(text_rows(&self.client, text)).map_err(|error| explain(&error))
    }

    /// Returns the rows of a query that the server may not support, or its message of refusal (`0A000`).
    ///
    /// # Errors
    /// Any other refusal.
    pub fn rows_if_supported(&self, text: &str) -> anyhow::Result<Result<TextRows, String>> {
        match self.runtime.block_on(text_rows(&self.client, text)) {
            Ok(rows) => Ok(Ok(rows)),
            Err(error) if is_unsupported(&error) => Ok(Err(explain(&error).to_string())),
            Err(error) => Err(explain(&error).context(text.to_owned())),
        }
    }

    /// Returns, for each column of a query's rows, whether it is a floating-point number.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn floating_columns(&self, text: &str) -> anyhow::Result<Vec<bool>> {
        let statement = self.runtime.block_on(self.client.prepare(text)).map_err(|error| explain(&error))?;
        let is_floating = |column: &tokio_postgres::Column| [Type::FLOAT4, Type::FLOAT8].contains(column.type_());
        Ok(statement.columns().iter().map(is_floating).collect())
    }

    /// Sends rows by COPY; `chunks` are made while the connection is open. Returns `None` if the server has no COPY.
    ///
    /// # Errors
    /// Errors of the server or of `chunks`.
    pub fn copy(
        &self,
        statement: &str,
        chunks: impl Iterator<Item = anyhow::Result<Vec<u8>>>,
    ) -> anyhow::Result<Option<u64>> {
        self.runtime.block_on(async {
            let sink = match self.client.copy_in::<_, Cursor<Vec<u8>>>(statement).await {
                Ok(sink) => sink,
                Err(error) if is_unsupported(&error) => return Ok(None),
                Err(error) => return Err(explain(&error).context(statement.to_owned())),
            };
            let mut sink = Box::pin(sink);
            for chunk in chunks {
                sink.send(Cursor::new(chunk?)).await.map_err(|error| explain(&error).context(statement.to_owned()))?;
            }
            let rows = sink.as_mut().finish().await;
            Ok(Some(rows.map_err(|error| explain(&error).context(statement.to_owned()))?))
        })
    }
}

/// Returns the rows of a query as text.
///
/// # Errors
/// Errors of the server.
pub async fn text_rows(client: &Client, text: &str) -> Result<TextRows, Error> {
    let messages = client.simple_query(text).await?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()),
        _ => None,
    });
    Ok(rows.collect())
}
