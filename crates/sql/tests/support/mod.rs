//! Sessions, and statements in them.

use settings::Connect;
use sql::session::{Database, Outcome, Session, Step};
use statement::SqlResult;
use types::Datum;

pub fn connect(database: &Database) -> Session {
    database.connect(Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() }).unwrap()
}

/// Runs each statement as a simple query; returns the rows of the last one.
pub fn run(session: &mut Session, text: &str) -> SqlResult<Vec<Box<[Datum]>>> {
    let mut last = Vec::new();
    for mut one in session.split(text)? {
        let statement = session.prepare_part(&mut one)?;
        let mut portal = session.bind(&statement, Vec::new())?;
        loop {
            match session.execute(&mut portal) {
                Ok(Step::Parked(parked)) => parked.wait(),
                Ok(Step::Done(Outcome::Rows(rows, _))) => {
                    last = rows;
                    break;
                }
                Ok(_) => break,
                Err(error) => {
                    let _ = session.sync();
                    return Err(error);
                }
            }
        }
        session.sync()?;
    }
    Ok(last)
}
