//! Runs the statements of the standard input, which stand in paragraphs, and prints what they return.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a tool")]

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{Database, Outcome, Step};
use types::text;

fn main() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let wishes = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    let mut session = database.connect(wishes).unwrap();
    let input = std::io::read_to_string(std::io::stdin()).unwrap();
    let mut paragraph = String::new();
    for line in input.lines().chain([""]) {
        if !line.trim().is_empty() {
            if !line.starts_with('#') {
                paragraph.push_str(line);
                paragraph.push('\n');
            }
            continue;
        }
        let text = std::mem::take(&mut paragraph);
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        println!("@@ {text}");
        let mut one = || {
            for part in session.split(text)? {
                let statement = session.prepare(&part.text, &[])?;
                let mut portal = session.bind(&statement, Vec::new())?;
                let outcome = loop {
                    match session.execute(&mut portal)? {
                        Step::Done(outcome) => break outcome,
                        Step::Parked(ticket) => ticket.wait(),
                        Step::CopyIn(_) | Step::CopyOut(_) => return Ok(()),
                    }
                };
                if let Outcome::Rows(rows, _) = outcome {
                    let columns = statement.columns().unwrap();
                    for row in rows.iter() {
                        let cell = |(value, column): (&types::Datum, &query::plan::ColumnInfo)| match value {
                            types::Datum::Null => "NULL".to_owned(),
                            types::Datum::Text(empty) if empty.is_empty() => "(empty)".to_owned(),
                            value => text::to_string(value, column.kind, &types::forms::Forms::default()),
                        };
                        let row: Vec<String> = row.iter().zip(columns).map(cell).collect();
                        println!("{}", if row.is_empty() { "(empty)".to_owned() } else { row.join(" ") });
                    }
                }
            }
            Ok::<_, statement::SqlError>(())
        };
        let result = one();
        if let Err(error) = &result {
            println!("ERROR {} {} @{}", error.state().0, error.message(), error.position().unwrap_or(0));
            if let Some(detail) = error.detail_text() {
                println!("DETAIL {detail}");
            }
            if let Some(hint) = error.hint_text() {
                println!("HINT {hint}");
            }
            session.fail();
        }
        let _ = session.sync();
    }
}
