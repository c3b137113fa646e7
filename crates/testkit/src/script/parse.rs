//! Parser of scripts: from a file's text to a [`Script`].

use super::statement::{
    Begin, CompareOp, Keys, Level, NewValue, RowCondition, RowLock, ScriptClass, ScriptStatement, TABLE_MODES, Wait,
    Which,
};
use super::{Expectation, Script, ScriptSession, ScriptStep, ScriptTable, Who};
use std::collections::BTreeSet;

/// Parses a script.
///
/// # Errors
/// The line, and the error in it.
pub fn parse(name: &str, text: &str) -> Result<Script, String> {
    let mut script = Script { name: name.to_owned(), ..Script::default() };
    for (number, line) in (1..).zip(text.lines()) {
        if script.expectations.is_empty() && !is_expectation(line) {
            script.head.push_str(line);
            script.head.push('\n');
        }
        let content = line.split('#').next().unwrap_or("").trim_end();
        if content.is_empty() {
            continue;
        }
        parse_line(&mut script, content).map_err(|why| format!("{name}:{number}: {why}: {line}"))?;
    }
    Ok(script)
}

fn is_expectation(line: &str) -> bool {
    ["expect ", "overtake ", "postgresql "].iter().any(|word| line.starts_with(word))
}

fn parse_line(script: &mut Script, line: &str) -> Result<(), String> {
    if line.starts_with(' ') {
        let line = line.trim();
        // Indented lines are steps before the first expectation, and transcripts after it.
        if let Some(expectation) = script.expectations.last_mut() {
            return if expectation.lines.insert(line.to_owned()) { Ok(()) } else { Err("twice".to_owned()) };
        }
        let (name, statement) = line.split_once(':').ok_or("a step is `name: statement`")?;
        if script.sessions.iter().flat_map(|session| &session.steps).any(|step| step.name == name) {
            return Err("this step's name is taken".to_owned());
        }
        let mut words = Words::new(statement);
        let statement = parse_statement(script, &mut words)?;
        words.end()?;
        let session = script.sessions.last_mut().ok_or("a step before the first session")?;
        session.steps.push(ScriptStep { name: name.to_owned(), statement });
        return Ok(());
    }
    let mut words = Words::new(line);
    match words.word()? {
        "table" => {
            let name = words.word()?.to_owned();
            let columns: Vec<String> = words.rest().into_iter().map(str::to_owned).collect();
            if columns.is_empty() {
                return Err("a table has columns".to_owned());
            }
            script.tables.push(ScriptTable { name, columns, indexes: Vec::new(), rows: Vec::new() });
        }
        kind @ ("index" | "unique") => {
            let table = table(script, &mut words)?;
            let column = column(script, table, words.word()?)?;
            script.tables[table].indexes.push((column, kind == "unique"));
        }
        "row" => {
            let table = table(script, &mut words)?;
            let values = words.rest().into_iter().map(value).collect::<Result<Vec<_>, _>>()?;
            if values.len() != script.tables[table].columns.len() {
                return Err("a row has a value for each column".to_owned());
            }
            script.tables[table].rows.push(values);
        }
        "session" => {
            let name = words.word()?.to_owned();
            let begin = begin(&mut words)?;
            script.sessions.push(ScriptSession { name, begin, steps: Vec::new() });
        }
        "permutation" => {
            let steps = words.rest();
            let permutation = steps.into_iter().map(|step| session_of(script, step)).collect::<Result<Vec<_>, _>>()?;
            script.permutations.push(permutation);
        }
        who @ ("expect" | "overtake" | "postgresql") => {
            let who = match who {
                "expect" => Who::Both,
                "overtake" => Who::Overtake,
                _ => Who::PostgreSql,
            };
            let mut levels = vec![level(&mut words)?];
            while words.take(",") {
                levels.push(level(&mut words)?);
            }
            script.expectations.push(Expectation { who, levels, lines: BTreeSet::new() });
        }
        _ => return Err("unknown".to_owned()),
    }
    words.end()
}

fn parse_statement(script: &Script, words: &mut Words<'_>) -> Result<ScriptStatement, String> {
    Ok(match words.word()? {
        "begin" => ScriptStatement::Begin(begin(words)?),
        "read" => {
            let table = table(script, words)?;
            let rows = which(script, table, words)?;
            let backward = words.take("desc");
            let limit = if words.take("limit") { Some(number(words.word()?)? as usize) } else { None };
            let lock = if words.take("for") { Some((row_lock(words)?, wait(words)?)) } else { None };
            ScriptStatement::Read { table, rows, backward, limit, lock }
        }
        "insert" => {
            let table = table(script, words)?;
            let values = words.rest().into_iter().map(value).collect::<Result<Vec<_>, _>>()?;
            if values.len() != script.tables[table].columns.len() {
                return Err("a row has a value for each column".to_owned());
            }
            ScriptStatement::Insert { table, values }
        }
        "update" => {
            let table = table(script, words)?;
            let keys = keys(script, table, words)?;
            if !words.take("set") {
                return Err("`set` is missing".to_owned());
            }
            let mut set = vec![set_column(script, table, words)?];
            while words.take(",") {
                set.push(set_column(script, table, words)?);
            }
            ScriptStatement::Update { table, rows: Which { keys, condition: condition(script, table, words)? }, set }
        }
        "delete" => {
            let table = table(script, words)?;
            ScriptStatement::Delete { table, rows: which(script, table, words)? }
        }
        "lock" => {
            let table = table(script, words)?;
            // A mode is several words, so the option is cut off at the end.
            let all = words.rest().join(" ");
            let (mode, wait) = match all.strip_suffix(" nowait") {
                Some(mode) => (mode, Wait::NoWait),
                None => (&*all, Wait::Block),
            };
            let mode = TABLE_MODES.iter().position(|name| *name == mode).ok_or("no mode of a table lock")?;
            ScriptStatement::LockTable { table, mode, wait }
        }
        "savepoint" => ScriptStatement::Savepoint(words.word()?.to_owned()),
        "rollback" if words.take("to") => ScriptStatement::RollbackTo(words.word()?.to_owned()),
        "release" => ScriptStatement::Release(words.word()?.to_owned()),
        "commit" => ScriptStatement::Commit,
        "rollback" => ScriptStatement::Rollback,
        _ => return Err("unknown statement".to_owned()),
    })
}

fn table(script: &Script, words: &mut Words<'_>) -> Result<usize, String> {
    let name = words.word()?;
    script.tables.iter().position(|table| table.name == name).ok_or_else(|| format!("no table is called {name}"))
}

fn column(script: &Script, table: usize, name: &str) -> Result<usize, String> {
    let columns = &script.tables[table].columns;
    columns.iter().position(|column| column == name).ok_or_else(|| format!("no column is called {name}"))
}

fn session_of(script: &Script, step: &str) -> Result<usize, String> {
    let has = |session: &ScriptSession| session.steps.iter().any(|other| other.name == step);
    script.sessions.iter().position(has).ok_or_else(|| format!("no step is called {step}"))
}

fn number(word: &str) -> Result<i64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn value(word: &str) -> Result<Option<i64>, String> {
    if word == "null" { Ok(None) } else { number(word).map(Some) }
}

fn bounds(word: &str) -> Result<(i64, i64), String> {
    let (low, high) = word.split_once("..").ok_or("bounds are `low..high`")?;
    Ok((number(low)?, number(high)?))
}

fn level(words: &mut Words<'_>) -> Result<Level, String> {
    match (words.word()?, if words.peek() == Some(",") { None } else { words.peek() }) {
        ("read", Some("committed")) => words.word().map(|_| Level::ReadCommitted),
        ("repeatable", Some("read")) => words.word().map(|_| Level::RepeatableRead),
        ("serializable", _) => Ok(Level::Serializable),
        _ => Err("no level".to_owned()),
    }
}

fn begin(words: &mut Words<'_>) -> Result<Begin, String> {
    let mut begin = Begin::default();
    while let Some(word) = words.peek() {
        words.word()?;
        match word {
            "level" => begin.level = Some(level(words)?),
            "class" => {
                begin.class = match words.word()? {
                    "high" => ScriptClass::High,
                    "normal" => ScriptClass::Normal,
                    "low" => ScriptClass::Low,
                    _ => return Err("no class".to_owned()),
                }
            }
            "read" if words.take("only") => begin.read_only = true,
            "deferrable" => begin.deferrable = true,
            _ => return Err("how does it begin?".to_owned()),
        }
    }
    Ok(begin)
}

fn keys(script: &Script, table: usize, words: &mut Words<'_>) -> Result<Keys, String> {
    if words.take("by") {
        let column = column(script, table, words.word()?)?;
        let (low, high) = bounds(words.word()?)?;
        return Ok(Keys::By(column, low, high));
    }
    match words.peek() {
        Some(word) if word.contains("..") => {
            words.word()?;
            bounds(word).map(|(low, high)| Keys::Between(low, high))
        }
        Some(word) if word.parse::<i64>().is_ok() => {
            words.word()?;
            number(word).map(Keys::One)
        }
        _ => Ok(Keys::All),
    }
}

fn condition(script: &Script, table: usize, words: &mut Words<'_>) -> Result<Option<RowCondition>, String> {
    if !words.take("where") {
        return Ok(None);
    }
    let column = column(script, table, words.word()?)?;
    let comparison = match words.word()? {
        "=" => CompareOp::Equal,
        "<>" => CompareOp::NotEqual,
        "<" => CompareOp::Less,
        ">" => CompareOp::Greater,
        _ => return Err("no comparison".to_owned()),
    };
    Ok(Some(RowCondition { column, comparison, value: number(words.word()?)? }))
}

fn which(script: &Script, table: usize, words: &mut Words<'_>) -> Result<Which, String> {
    Ok(Which { keys: keys(script, table, words)?, condition: condition(script, table, words)? })
}

fn set_column(script: &Script, table: usize, words: &mut Words<'_>) -> Result<(usize, NewValue), String> {
    let target = column(script, table, words.word()?)?;
    if !words.take("=") {
        return Err("`=` is missing".to_owned());
    }
    let word = words.word()?;
    if let Ok(value) = value(word) {
        return Ok((target, NewValue::To(value)));
    }
    let source = column(script, table, word)?;
    let sign = match words.word()? {
        "+" => 1,
        "-" => -1,
        _ => return Err("`+` or `-` is missing".to_owned()),
    };
    Ok((target, NewValue::Plus(source, sign * number(words.word()?)?)))
}

fn row_lock(words: &mut Words<'_>) -> Result<RowLock, String> {
    Ok(match words.word()? {
        "update" => RowLock::Update,
        "share" => RowLock::Share,
        "key" if words.take("share") => RowLock::KeyShare,
        "no" if words.take("key") && words.take("update") => RowLock::NoKeyUpdate,
        _ => return Err("no row lock".to_owned()),
    })
}

fn wait(words: &mut Words<'_>) -> Result<Wait, String> {
    if words.take("nowait") {
        Ok(Wait::NoWait)
    } else if words.take("skip") {
        if words.take("locked") { Ok(Wait::SkipLocked) } else { Err("`locked` is missing".to_owned()) }
    } else {
        Ok(Wait::Block)
    }
}

/// Words of a line; a comma is one.
struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn new(line: &'a str) -> Words<'a> {
        let words = line.split_whitespace().flat_map(|word| match word.strip_suffix(',') {
            Some(word) => vec![word, ","],
            None => vec![word],
        });
        Words { words: words.collect(), next: 0 }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn word(&mut self) -> Result<&'a str, String> {
        let word = self.peek().ok_or("the line ends too early")?;
        self.next += 1;
        Ok(word)
    }

    fn take(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        self.next += usize::from(is);
        is
    }

    fn rest(&mut self) -> Vec<&'a str> {
        self.words[std::mem::replace(&mut self.next, self.words.len())..].to_vec()
    }

    fn end(&self) -> Result<(), String> {
        self.peek().map_or(Ok(()), |word| Err(format!("{word} is too much")))
    }
}
