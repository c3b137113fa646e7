//! Output of statements as text, as `psql --no-align` shows it, with the SQLSTATEs of errors.

use crate::connection::{Session, StatementAnswer};
use crate::script;
use std::fmt::Write;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::DbError;

/// Executes the statements of a text, also those after an error. Returns them with their output.
///
/// # Errors
/// Fails if the connection is lost.
pub(crate) async fn transcript(session: &Session, text: &str) -> anyhow::Result<String> {
    let mut parts = Vec::new();
    for statement in script::statements(text) {
        let answer = session.execute(statement).await?;
        parts.push(format!("{statement};\n{}", shown(&answer)));
    }
    Ok(parts.join("\n"))
}

fn shown(answer: &StatementAnswer) -> String {
    let mut out: String = answer.notices.iter().map(message).collect();
    match &answer.outcome {
        Ok(messages) => rows(messages, &mut out),
        Err(error) => out.push_str(&message(error)),
    }
    out
}

/// Returns an error or notice as text.
pub(crate) fn message(error: &DbError) -> String {
    // A notice's code is of no interest: it is 00000 mostly.
    let is_error = matches!(error.severity(), "ERROR" | "FATAL" | "PANIC");
    let code = if is_error { format!("{}: ", error.code().code()) } else { String::new() };
    let mut out = format!("{}:  {code}{}\n", error.severity(), error.message());
    for (word, text) in [("DETAIL", error.detail()), ("HINT", error.hint())] {
        if let Some(text) = text {
            out.push_str(&format!("{word}:  {text}\n"));
        }
    }
    out
}

fn rows(messages: &[SimpleQueryMessage], out: &mut String) {
    let (mut has_columns, mut rows) = (false, 0_u64);
    for message in messages {
        // Writing to a text cannot fail.
        let _ = match message {
            SimpleQueryMessage::RowDescription(columns) => {
                (has_columns, rows) = (true, 0);
                let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
                writeln!(out, "{}", names.join("|"))
            }
            SimpleQueryMessage::Row(row) => {
                rows += 1;
                let values: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
                writeln!(out, "{}", values.join("|"))
            }
            SimpleQueryMessage::CommandComplete(count) => {
                // The tag of CALL has no number.
                let count = if has_columns { &rows } else { count };
                let plural = if *count == 1 { "" } else { "s" };
                if has_columns {
                    writeln!(out, "({count} row{plural})")
                } else if *count == 0 {
                    writeln!(out, "OK")
                } else {
                    writeln!(out, "OK, {count} row{plural}")
                }
            }
            _ => Ok(()),
        };
    }
}
