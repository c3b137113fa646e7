//! Prepared statements of clients, shared by content.
//!
//! Two clients that prepare the same text with the same types, under the same settings, mean one statement; on server
//! connections it has one name, `_ot_NUMBER`, whatever the clients call it. Settings count because literals become
//! values when a text is parsed: a date by `DateStyle`, a time by `TimeZone`.
//!
//! **Invariant:** a number belongs to one content for as long as the process lives. The table holds only statements
//! that some client has.

use crate::clients::priority::{self, LocalStatement};
use crate::statements::block_command::{BlockCommand, bare};
use crate::statements::properties::StatementProperties;
use crate::statements::repeated::Repeated;
use crate::statements::scan::{Scan, scan};
use crate::statements::shown::shortened;
use locked::Locked;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

/// Statement of one content.
#[derive(Debug)]
pub(crate) struct SharedStatement {
    pub(crate) number: u64,
    /// Name on server connections.
    pub(crate) name: Box<str>,
    /// Text and types, as `Parse` has them behind the name.
    pub(crate) body: Box<[u8]>,
    pub(crate) scan: Scan,
    pub(crate) bare: Option<BlockCommand>,
    /// Text as it is shown.
    pub(crate) text: Arc<str>,
}

/// Key of a statement: the settings that it is parsed under, and the body.
type StatementKey = (Box<str>, Box<[u8]>);

/// Table of the shared statements.
#[derive(Debug, Default)]
pub(crate) struct SharedStatements {
    last: AtomicU64,
    by_content: Mutex<(HashMap<StatementKey, Weak<SharedStatement>>, usize)>,
    pub(crate) repeated: Repeated,
}

/// Prefix of names on server connections.
pub(crate) const PREFIX: &str = "_ot_";

/// Name that a statement of this number has on server connections.
pub(crate) fn name_of(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// True if a name looks like one of the proxy's own: a client's statement of such a name must not be found among these.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX.as_bytes()).and_then(<[u8]>::first).is_some_and(u8::is_ascii_digit)
}

/// Position in the text of an error of a name with the prefix of the proxy's own, and the text behind that prefix.
fn behind_prefix(text: &[u8]) -> Option<(usize, &[u8])> {
    let at = text.windows(PREFIX.len()).position(|window| window == PREFIX.as_bytes())?;
    Some((at, &text[at + PREFIX.len()..]))
}

/// True if the text of an error contains the name of one of the proxy's own statements.
pub(crate) fn names_one(text: &[u8]) -> bool {
    behind_prefix(text).is_some_and(|(_, rest)| rest.first().is_some_and(u8::is_ascii_digit))
}

impl SharedStatements {
    /// Returns the statement of this content.
    pub(crate) fn of(&self, context: &str, body: &[u8]) -> Arc<SharedStatement> {
        let key: StatementKey = (context.into(), body.into());
        if let Some(statement) = self.by_content.locked().0.get(&key).and_then(Weak::upgrade) {
            return statement;
        }
        // Read without the lock: a panic over the text of one client is no matter of the others.
        let statement = self.alone(body);
        let mut all = self.by_content.locked();
        let (by_content, swept_at) = &mut *all;
        if let Some(first) = by_content.get(&key).and_then(Weak::upgrade) {
            return first;
        }
        if 2 * *swept_at + 1_000 < by_content.len() {
            by_content.retain(|_, statement| 0 < statement.strong_count());
            *swept_at = by_content.len();
        }
        by_content.insert(key, Arc::downgrade(&statement));
        statement
    }

    /// Creates a statement that is not shared: its meaning depends on the time when it is parsed, or on settings that
    /// are not known.
    pub(crate) fn alone(&self, body: &[u8]) -> Arc<SharedStatement> {
        let number = self.last.fetch_add(1, Relaxed) + 1;
        let text = body.split(|&byte| byte == 0).next().unwrap_or_default();
        let scan = if priority::is_for_server(text) { Scan::default() } else { scan(text) };
        let (name, bare, text) = (name_of(number).into(), bare(text), shortened(text));
        Arc::new(SharedStatement { number, name, body: body.into(), scan, bare, text })
    }

    /// Returns the statement of this content, which has no name, if it repeats.
    pub(crate) fn repeated(&self, context: &str, body: &[u8]) -> Option<Arc<SharedStatement>> {
        self.repeated.get(context, body, || self.of(context, body))
    }

    /// Forgets all contents, as the meaning of texts may have changed: a text that is sent from here on becomes another
    /// statement.
    pub(crate) fn renew(&self) {
        self.repeated.clear();
        let mut all = self.by_content.locked();
        *all = Default::default();
    }
}

/// Names of one client's statements.
#[derive(Debug, Default)]
pub(crate) struct StatementNames {
    named: HashMap<Arc<[u8]>, NamedStatement>,
    /// Names that were assigned or removed by messages without an answer yet, in their order, and their former
    /// statements.
    unsure: VecDeque<UnsureName>,
    /// Number of these for each name, and their batch: a message of a later batch that would use the name has to wait.
    unsure_names: HashMap<Arc<[u8]>, (usize, u64)>,
    pub(crate) unnamed: Unnamed,
    /// Unnamed statements that were replaced by messages without an answer yet, in their order.
    former: VecDeque<FormerUnnamed>,
    /// Number of the last unnamed statement.
    last_unnamed: u64,
    /// Empty buffer for the next one.
    spare: Vec<u8>,
}

/// Unnamed statement of a client.
#[derive(Debug, Default)]
pub(crate) struct Unnamed {
    /// Body of the `Parse` behind the name; empty: it is known that there is no statement. The buffer is reused.
    pub(crate) body: Vec<u8>,
    /// Number of it among the unnamed ones of the client.
    pub(crate) number: u64,
    /// Shared statement for all clients that send it, if it repeats.
    pub(crate) shared: Option<Arc<SharedStatement>>,
    pub(crate) scan: Scan,
    pub(crate) set: Option<LocalStatement>,
}

/// Unnamed statement that existed before a message.
#[derive(Debug)]
struct FormerUnnamed {
    message: u64,
    batch: u64,
    before: Unnamed,
    /// Number of entries from this one on whose messages have failed; 0: this one's has not.
    gone: usize,
}

/// Capacity in bytes above which a spare buffer is released.
const KEEP: usize = 16 << 10;
/// Capacity of the tables of names and messages under way, above which their memory is released, too.
const MANY: usize = 1 << 10;

#[derive(Debug)]
struct NamedStatement {
    statement: Arc<SharedStatement>,
    /// Action of the proxy when it is executed.
    set: Option<LocalStatement>,
    /// Number of the message that has named it.
    message: u64,
    /// Properties of a transaction that begins with it, if they were determined.
    known: Option<StatementProperties>,
}

#[derive(Debug)]
struct UnsureName {
    message: u64,
    name: Arc<[u8]>,
    /// Statement that the name stands for again if the message fails.
    closed: Option<NamedStatement>,
    /// True if the message has failed.
    is_gone: bool,
}

impl StatementNames {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<SharedStatement>> {
        self.named.get(name).map(|named| &named.statement)
    }

    /// Returns the command that the statement of this name is, and its text.
    pub(crate) fn bare(&self, name: &[u8]) -> Option<(BlockCommand, &[u8])> {
        if !name.is_empty() && self.get(name)?.bare.is_none() {
            return None;
        }
        let text = self.text(name)?;
        Some((bare(text)?, text))
    }

    /// Returns the text of the statement of this name.
    pub(crate) fn text(&self, name: &[u8]) -> Option<&[u8]> {
        let body = if name.is_empty() { &self.unnamed.body[..] } else { &self.get(name)?.body };
        body.split(|&byte| byte == 0).next()
    }

    /// Returns the known properties of the statement of this name.
    pub(crate) fn known(&self, name: &[u8]) -> Option<&StatementProperties> {
        self.named.get(name)?.known.as_ref()
    }

    pub(crate) fn know(&mut self, name: &[u8], known: StatementProperties) {
        if let Some(named) = self.named.get_mut(name) {
            named.known = Some(known);
        }
    }

    /// Returns the action of the proxy when the statement of this name is executed.
    pub(crate) fn set_of(&self, name: &[u8]) -> Option<&LocalStatement> {
        if name.is_empty() { self.unnamed.set.as_ref() } else { self.named.get(name)?.set.as_ref() }
    }

    /// Assigns a name by a message of this batch, unless an error comes first.
    pub(crate) fn insert(
        &mut self,
        name: &[u8],
        statement: Arc<SharedStatement>,
        set: Option<LocalStatement>,
        (message, batch): (u64, u64),
    ) {
        let name: Arc<[u8]> = name.into();
        self.named.insert(Arc::clone(&name), NamedStatement { statement, set, message, known: None });
        self.doubt(UnsureName { message, name, closed: None, is_gone: false }, batch);
    }

    /// Assigns a name by a message that the proxy has answered already.
    pub(crate) fn has_inserted(&mut self, name: &[u8], statement: Arc<SharedStatement>, message: u64) {
        self.named.insert(name.into(), NamedStatement { statement, set: None, message, known: None });
    }

    /// True if no name depends on a message without an answer.
    pub(crate) fn is_sure(&self) -> bool {
        self.unsure.is_empty() && self.former.is_empty()
    }

    /// True if the statement of this name depends on a message of an earlier batch.
    pub(crate) fn is_unsure(&self, name: &[u8], batch: u64) -> bool {
        self.unsure_names.get(name).is_some_and(|&(_, own)| own != batch)
    }

    /// True if the current unnamed statement depends on a message of an earlier batch.
    pub(crate) fn is_unnamed_unsure(&self, batch: u64) -> bool {
        self.former.iter().rev().find(|former| former.gone == 0).is_some_and(|former| former.batch != batch)
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        self.named.remove(name).is_some()
    }

    /// Closes a statement by a message of this batch, unless an error comes first. Returns true if there is one.
    pub(crate) fn close(&mut self, name: &[u8], message: u64, batch: u64) -> bool {
        let Some((name, named)) = self.named.remove_entry(name) else { return false };
        self.doubt(UnsureName { message, name, closed: Some(named), is_gone: false }, batch);
        true
    }

    /// Notes that a name depends on a message of this batch.
    fn doubt(&mut self, unsure: UnsureName, batch: u64) {
        let (count, own) = self.unsure_names.entry(Arc::clone(&unsure.name)).or_default();
        (*count, *own) = (*count + 1, batch);
        self.unsure.push_back(unsure);
    }

    /// Notes that a name does not depend on one of these messages any more.
    fn is_settled(&mut self, name: &[u8]) {
        if let Some((count, _)) = self.unsure_names.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.unsure_names.remove(name);
            }
        }
        // Memory of a long batch is released.
        if self.unsure_names.is_empty() && MANY < self.unsure_names.capacity() {
            (self.unsure, self.unsure_names) = Default::default();
        }
    }

    /// Notes that the message has taken effect; 0: it was none of the client's.
    pub(crate) fn confirm(&mut self, message: u64) {
        if message == 0 {
            return;
        }
        while let Some(unsure) = self.unsure.pop_front_if(|unsure| unsure.message <= message) {
            if !unsure.is_gone {
                self.is_settled(&unsure.name);
            }
        }
        let is_answered = |former: &&FormerUnnamed| former.message <= message;
        let count = self.former.iter().take_while(is_answered).count();
        self.forget_former(count);
    }

    /// Notes that all messages are answered.
    pub(crate) fn settle(&mut self) {
        self.forget_former(self.former.len());
    }

    fn forget_former(&mut self, count: usize) {
        for FormerUnnamed { before, .. } in self.former.drain(..count) {
            self.spare = before.body;
        }
        self.spare.clear();
        if KEEP < self.spare.capacity() {
            self.spare = Vec::new();
        }
        if self.former.is_empty() && MANY < self.former.capacity() {
            self.former = VecDeque::new();
        }
    }

    /// Undoes a message that has failed, or was ignored after an error. A failed `Parse` of an unnamed statement loses
    /// the one before as well.
    pub(crate) fn take_back(&mut self, message: u64, has_failed: bool) {
        if let Ok(at) = self.former.binary_search_by_key(&message, |former| former.message) {
            let gone = 1 + self.former.get(at + 1).map_or(0, |next| next.gone);
            self.former[at].gone = gone;
            let mut before = mem::take(&mut self.former[at].before);
            if has_failed {
                before = self.no_unnamed();
            }
            // The statement that it has brought may have been replaced since.
            let brought = self.former.get_mut(at + gone).map_or(&mut self.unnamed, |next| &mut next.before);
            *brought = before;
            // Messages that are undone are mostly among the first, and they are many where a batch fails.
            while self.former.pop_front_if(|former| 0 < former.gone).is_some() {}
        }
        let Ok(at) = self.unsure.binary_search_by_key(&message, |unsure| unsure.message) else { return };
        let unsure = &mut self.unsure[at];
        unsure.is_gone = true;
        let (name, closed) = (Arc::clone(&unsure.name), unsure.closed.take());
        while self.unsure.pop_front_if(|unsure| unsure.is_gone).is_some() {}
        self.is_settled(&name);
        match closed {
            Some(named) => drop(self.named.insert(name, named)),
            None => drop(self.named.remove(&name)),
        }
    }

    /// Replaces a statement's name on server connections by the client's in a text; `None` if the text contains none.
    pub(crate) fn named_in(&self, text: &[u8]) -> Option<Vec<u8>> {
        let (at, rest) = behind_prefix(text)?;
        if is_reserved(rest) {
            // The name looks like one of the proxy's, so it was sent with another prefix.
            return Some([&text[..at], rest].concat());
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let name = &text[at..at + PREFIX.len() + digits];
        let closed = self.unsure.iter().filter_map(|unsure| Some((&unsure.name, unsure.closed.as_ref()?)));
        let named = self.named.iter().chain(closed).map(|(own, named)| (&**own, &named.statement));
        let unnamed = self.unnamed.shared.as_ref().map(|statement| (&b""[..], statement));
        let (own, _) = named.chain(unnamed).find(|(_, statement)| statement.name.as_bytes() == name)?;
        Some([&text[..at], own, &text[at + name.len()..]].concat())
    }

    /// Removes all names that were assigned before this message.
    pub(crate) fn clear_before(&mut self, message: u64) {
        self.named.retain(|_, named| message <= named.message);
    }

    /// Sets the unnamed statement by this message of this batch; 0: by one that cannot fail any more.
    pub(crate) fn set_unnamed(&mut self, body: &[u8], scan: Scan, message: u64, batch: u64) {
        let none = self.no_unnamed();
        let before = mem::replace(&mut self.unnamed, none);
        self.keep_former(before, message, batch);
        self.unnamed.body.extend_from_slice(body);
        self.unnamed.scan = scan;
    }

    /// Removes the unnamed statement by this message of this batch; 0: by one that cannot fail any more.
    pub(crate) fn forget_unnamed(&mut self, message: u64, batch: u64) {
        let none = self.no_unnamed();
        let before = mem::replace(&mut self.unnamed, none);
        self.keep_former(before, message, batch);
    }

    fn keep_former(&mut self, before: Unnamed, message: u64, batch: u64) {
        if message == 0 {
            // No message is under way.
            self.former.clear();
            self.spare = before.body;
            self.forget_former(0);
        } else {
            self.former.push_back(FormerUnnamed { message, batch, before, gone: 0 });
        }
    }

    /// Creates an absent statement, which differs from earlier absent ones.
    fn no_unnamed(&mut self) -> Unnamed {
        self.last_unnamed += 1;
        Unnamed { body: mem::take(&mut self.spare), number: self.last_unnamed, ..Unnamed::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_content_is_one_statement() {
        let all = SharedStatements::default();
        let one = all.of("", b"select 1\0\0\0");
        assert!(Arc::ptr_eq(&one, &all.of("", b"select 1\0\0\0")));
        assert_ne!(one.number, all.of("a", b"select 1\0\0\0").number);
        let number = one.number;
        drop(one);
        assert_ne!(all.of("", b"select 1\0\0\0").number, number);
    }

    #[test]
    fn a_text_whose_meaning_has_changed_is_another_statement() {
        let all = SharedStatements::default();
        all.repeated.turn(true);
        let seen = || (0..20).find_map(|_| all.repeated("", b"select 1\0\0\0"));
        let (one, named) = (seen().expect("it comes again"), all.of("", b"select 2\0\0\0"));
        assert!(Arc::ptr_eq(&one, &seen().expect("it is known")) && Arc::ptr_eq(&one, &all.of("", &one.body)));
        all.renew();
        assert_ne!(seen().expect("it comes again").number, one.number);
        assert_ne!(all.of("", &named.body).number, named.number);
    }

    #[test]
    fn names_are_taken_back() {
        let (all, mut names) = (SharedStatements::default(), StatementNames::default());
        names.insert(b"a", all.of("", b"1\0"), None, (1, 1));
        names.insert(b"b", all.of("", b"2\0"), None, (5, 1));
        names.clear_before(3);
        assert!(names.get(b"a").is_none() && names.get(b"b").is_some());
        assert!(names.is_unsure(b"b", 2) && !names.is_unsure(b"b", 1));
        assert!(names.close(b"b", 6, 1));
        names.take_back(6, false);
        assert!(names.get(b"b").is_some());
        names.take_back(5, true);
        assert!(names.get(b"b").is_none() && !names.is_unsure(b"b", 2));
        // A session may have sent thousands of millions of messages since it assigned a name.
        names.has_inserted(b"c", all.of("", b"3\0"), 0);
        names.insert(b"d", all.of("", b"4\0"), None, (1 << 32, 1));
        assert!(names.is_unsure(b"d", 2));
        names.confirm(1 << 32);
        assert!(names.is_sure());
        names.clear_before(1 << 33);
        assert!(names.get(b"c").is_none() && names.get(b"d").is_none());
    }

    #[test]
    fn a_long_pipeline_is_not_walked_for_each_message() {
        const MESSAGES: u64 = 100_000;
        let begun = std::time::Instant::now();
        let (all, mut names) = (SharedStatements::default(), StatementNames::default());
        let one = all.of("", b"select 1\0\0\0");
        let name = |message: u64| message.to_string().into_bytes();
        let send = |names: &mut StatementNames, batch: u64, from: u64| {
            for message in from..from + MESSAGES {
                assert!(!names.is_unsure(&name(message), batch) && !names.is_unnamed_unsure(batch));
                names.insert(&name(message), Arc::clone(&one), None, (message, batch));
                names.set_unnamed(b"select 2\0", Scan::default(), message, batch);
            }
        };
        send(&mut names, 1, 1);
        (1..=MESSAGES).for_each(|message| names.confirm(message));
        assert!(names.is_sure() && names.get(&name(7)).is_some());
        // All messages of a batch fail, and those behind it stand.
        let (second, third) = (MESSAGES + 1, 2 * MESSAGES + 1);
        send(&mut names, 2, second);
        assert!(names.is_unsure(&name(second), 3) && names.is_unnamed_unsure(3));
        for message in third..third + MESSAGES {
            names.insert(&name(message), Arc::clone(&one), None, (message, 3));
        }
        (second..third).rev().for_each(|message| names.take_back(message, message == second));
        assert!(names.get(&name(second)).is_none() && names.get(&name(third)).is_some());
        assert!(names.unnamed.body.is_empty() && names.is_unsure(&name(third), 4));
        names.confirm(third + MESSAGES);
        assert!(names.is_sure() && names.unsure.capacity() <= MANY && names.former.capacity() <= MANY);
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    #[test]
    fn unnamed_statements_are_taken_back() {
        let set = |names: &mut StatementNames, message: u64| {
            names.set_unnamed(message.to_string().as_bytes(), Scan::default(), message, 1);
        };
        // A failed statement is gone, and so is the one before it; an ignored one leaves the one before.
        let mut names = StatementNames::default();
        set(&mut names, 1);
        names.confirm(1);
        let number = names.unnamed.number;
        set(&mut names, 2);
        names.forget_unnamed(3, 1);
        set(&mut names, 4);
        [4, 3, 2].into_iter().for_each(|message| names.take_back(message, false));
        assert_eq!((&names.unnamed.body[..], names.unnamed.number), (&b"1"[..], number));
        set(&mut names, 5);
        set(&mut names, 6);
        [(6, false), (5, true)].into_iter().for_each(|(message, has_failed)| names.take_back(message, has_failed));
        assert!(names.unnamed.body.is_empty() && names.is_sure());
        // A later statement stays, and the failed one does not come back behind it.
        set(&mut names, 7);
        names.set_unnamed(b"8", Scan::default(), 8, 2);
        names.take_back(7, true);
        assert_eq!(names.unnamed.body, b"8");
        assert!(names.is_unnamed_unsure(3) && !names.is_unnamed_unsure(2));
        names.take_back(8, false);
        assert!(names.unnamed.body.is_empty() && names.is_sure());
        // Answered messages are not kept.
        (9..2_000).for_each(|message| set(&mut names, message));
        names.confirm(1_500);
        assert_eq!(names.former.len(), 499);
        names.settle();
        assert!(names.is_sure() && names.unnamed.body == b"1999");
    }
}
