use super::*;

fn expects(all: impl IntoIterator<Item = ExpectedReply>) -> ExpectedReplies {
    let mut expects = ExpectedReplies::default();
    all.into_iter().for_each(|one| assert!(expects.push(one)));
    expects
}

fn answer(expects: &mut ExpectedReplies, kinds: &[u8]) -> Vec<ReplyMeaning> {
    kinds.iter().map(|&kind| expects.answered(ReplyKind::of(kind), &mut |_| {}).expect("it fits")).collect()
}

#[test]
fn a_prepared_execution() {
    let parse = ExpectedReply::Parse { statement: 7, message: 1 };
    let mut all =
        expects([parse, ExpectedReply::Bind, ExpectedReply::Columns, ExpectedReply::Execute(4), ExpectedReply::Sync]);
    let means = answer(&mut all, b"12TDDCZ");
    assert_eq!(means[0], ReplyMeaning::Parsed { statement: 7, message: 1 });
    assert_eq!(means[5..], [ReplyMeaning::Executed(4), ReplyMeaning::Ready]);
    assert!(all.is_empty());
    assert_eq!(all.answered(ReplyKind::Bound, &mut |_| {}), Err(UnexpectedReply));
}

#[test]
fn an_error_takes_with_it_what_follows_up_to_sync() {
    let mut all = expects([
        ExpectedReply::Bind,
        ExpectedReply::Execute(2),
        ExpectedReply::Query(3),
        ExpectedReply::Sync,
        ExpectedReply::Query(5),
    ]);
    let mut dropped = 0;
    assert_eq!(all.answered(ReplyKind::Error, &mut |_| dropped += 1), Ok(ReplyMeaning::Pass));
    assert_eq!(dropped, 3);
    answer(&mut all, b"ZCZ");
    // Messages that are sent later are ignored, too, until there is a Sync.
    let mut all = expects([ExpectedReply::Bind]);
    answer(&mut all, b"E");
    assert!(!all.push(ExpectedReply::Query(2)));
    assert!(all.push(ExpectedReply::Sync));
    answer(&mut all, b"Z");
    assert!(all.is_empty());
}

#[test]
fn a_long_pipeline_is_not_walked_for_each_message() {
    let begun = std::time::Instant::now();
    let mut all = ExpectedReplies::default();
    for message in 1..300_000 {
        all.push(ExpectedReply::Parse { statement: message, message });
        assert!(all.is_one_batch());
    }
    all.push(ExpectedReply::Sync);
    assert!(!all.is_one_batch() && !all.owes_sync());
    answer(&mut all, &[b'1'; 299_999]);
    assert!(!all.is_one_batch());
    answer(&mut all, b"Z");
    assert!(all.is_one_batch() && all.is_empty());
    // Ignored messages do not count any more.
    let mut all = expects([ExpectedReply::Bind, ExpectedReply::Query(2), ExpectedReply::Function, ExpectedReply::Sync]);
    answer(&mut all, b"E");
    assert!(!all.is_one_batch());
    answer(&mut all, b"Z");
    assert!(all.is_one_batch());
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn an_error_of_a_query_ends_with_its_own_ready() {
    let mut all = expects([ExpectedReply::Query(1), ExpectedReply::Query(2)]);
    answer(&mut all, b"TDEZCZ");
    assert!(all.is_empty());
}

#[test]
fn a_copy_that_fails_is_resolved_by_a_barrier() {
    let mut all = ExpectedReplies::default();
    all.push_copy(ExpectedReply::Execute(1));
    assert!(all.push(ExpectedReply::Sync));
    answer(&mut all, b"GE");
    let mut out = BytesMut::new();
    all.put_barrier(&mut out);
    assert_eq!((out[0], all.is_resolving()), (b'S', true));
    // The server has ignored the client's Sync: the client owes one.
    let means = answer(&mut all, b"Z3Z");
    assert_eq!(means, [ReplyMeaning::Swallow, ReplyMeaning::Swallow, ReplyMeaning::Resolved { skips: true }]);
    assert!(all.skips() && all.is_empty() && all.push(ExpectedReply::Sync));
}

/// Explores a client, the queue and a server together, in all their states. Whatever the client sends, whenever the
/// COPY fails and however late the server is, the client is told what the server alone would have told it, and the
/// queue is empty exactly when the server is idle.
mod model {
    use super::*;
    use std::collections::{HashSet, VecDeque};
    use std::hash::{DefaultHasher, Hash, Hasher};

    /// Length of the sequences of messages.
    const LENGTH: usize = 8;
    /// Maximum number of the client's messages on their way, unless OVERTAKE_LAG gives another.
    const LAG: usize = 3;

    /// Kind of a message of the client, or of the proxy.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Kind {
        /// `Parse`, `Bind` and `Execute` of a COPY, which have one answer here.
        ExecuteCopy,
        /// `Parse`, `Bind` and `Execute` of another statement.
        Execute,
        QueryCopy,
        Query,
        Sync,
        Flush,
        Data,
        Done,
        Fail,
        /// `Close` of the barrier.
        Close,
        /// Empty query that ends a COPY.
        Probe,
    }

    /// Message, with the point at which the server that has it fails.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct Message(Kind, Fails);

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Fails {
        Never,
        /// At the message: a COPY is refused, or fails behind it.
        There,
        /// At the begin: a COPY fails as soon as it has begun.
        Begun,
    }

    /// PostgreSQL, as far as the protocol of COPY goes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Server {
        Idle,
        /// In a batch, which an extended query has begun.
        Batch,
        Copy {
            is_simple: bool,
        },
        Skips,
        Gone,
    }

    impl Server {
        /// Takes a message; returns the kinds of its answers.
        fn take(&mut self, Message(kind, fails): Message) -> &'static [u8] {
            let is_failed = fails != Fails::Never;
            match *self {
                Server::Gone => &[],
                Server::Skips => match kind {
                    Kind::Sync => self.becomes(Server::Idle, b"Z"),
                    _ => &[],
                },
                Server::Copy { is_simple } => {
                    let (after, failed): (_, &[u8]) =
                        if is_simple { (Server::Idle, b"EZ") } else { (Server::Skips, b"E") };
                    match kind {
                        Kind::Data | Kind::Sync | Kind::Flush | Kind::Done if is_failed => self.becomes(after, failed),
                        Kind::Data | Kind::Sync | Kind::Flush => &[],
                        Kind::Done if is_simple => self.becomes(Server::Idle, b"CZ"),
                        Kind::Done => self.becomes(Server::Batch, b"C"),
                        Kind::Fail => self.becomes(after, failed),
                        // The error, and the last message.
                        _ => self.becomes(Server::Gone, b"EE"),
                    }
                }
                Server::Idle | Server::Batch => match (kind, fails) {
                    (Kind::ExecuteCopy, Fails::Never) => self.becomes(Server::Copy { is_simple: false }, b"G"),
                    (Kind::ExecuteCopy, Fails::Begun) => self.becomes(Server::Skips, b"GE"),
                    (Kind::ExecuteCopy | Kind::Execute, Fails::There) => self.becomes(Server::Skips, b"E"),
                    (Kind::Execute, _) => self.becomes(Server::Batch, b"C"),
                    (Kind::QueryCopy, Fails::Never) => self.becomes(Server::Copy { is_simple: true }, b"G"),
                    (Kind::QueryCopy, Fails::Begun) => self.becomes(Server::Idle, b"GEZ"),
                    (Kind::QueryCopy | Kind::Query, Fails::There) => self.becomes(Server::Idle, b"EZ"),
                    (Kind::Query, _) => self.becomes(Server::Idle, b"CZ"),
                    (Kind::Probe, _) => self.becomes(Server::Idle, b"IZ"),
                    (Kind::Sync, _) => self.becomes(Server::Idle, b"Z"),
                    (Kind::Close, _) => self.becomes(Server::Batch, b"3"),
                    (Kind::Flush | Kind::Data | Kind::Done | Kind::Fail, _) => &[],
                },
            }
        }

        /// True if these answers are sent at once, with all that were kept before.
        fn flushes(self, before: Server, message: Message, answers: &[u8]) -> bool {
            let is_asked = message.0 == Kind::Flush && !matches!(before, Server::Copy { .. } | Server::Skips);
            is_asked || answers.iter().any(|answer| matches!(answer, b'Z' | b'G' | b'E'))
        }

        fn becomes(&mut self, next: Server, answers: &'static [u8]) -> &'static [u8] {
            *self = next;
            answers
        }
    }

    /// Proxy between the two, with as much of the link as the queue needs.
    #[derive(Debug, Default)]
    struct Front {
        expects: ExpectedReplies,
        input: VecDeque<Message>,
        sent: VecDeque<Message>,
        is_open_batch: bool,
    }

    impl Front {
        fn again(&self) -> Front {
            let mut queue = ReplyQueue::default();
            self.expects.queue.iter().map(again).for_each(|expect| queue.push_back(expect));
            // All fields except the queue are plain values.
            let ExpectedReplies { skips, copies_in, is_copy, may_copy, may_copy_next, .. } = self.expects;
            let ExpectedReplies { ignorable, has_flushed, has_probed, wants_barrier, .. } = self.expects;
            let expects = ExpectedReplies {
                queue,
                skips,
                copies_in,
                is_copy,
                may_copy,
                may_copy_next,
                ignorable,
                has_flushed,
                has_probed,
                wants_barrier,
            };
            let (input, sent) = (self.input.clone(), self.sent.clone());
            Front { expects, input, sent, is_open_batch: self.is_open_batch }
        }

        fn send(&mut self, kind: Kind) {
            self.sent.push_back(Message(kind, Fails::Never));
        }

        fn forward(&mut self) {
            while let Some(&message) = self.input.front() {
                let kind = match message.0 {
                    Kind::ExecuteCopy | Kind::Execute => b'P',
                    Kind::QueryCopy | Kind::Query | Kind::Probe => b'Q',
                    Kind::Sync => b'S',
                    Kind::Flush => b'H',
                    Kind::Data => b'd',
                    Kind::Done => b'c',
                    Kind::Fail => b'f',
                    Kind::Close => b'C',
                };
                match self.expects.admits(kind) {
                    SendDecision::Now => {}
                    SendDecision::Later => return,
                    SendDecision::AfterFlush => return self.send(Kind::Flush),
                    SendDecision::AfterProbe => return self.send(Kind::Probe),
                }
                self.input.pop_front();
                if self.expects.skips() && !matches!(kind, b'S' | b'd') {
                    continue;
                }
                match message.0 {
                    Kind::ExecuteCopy => {
                        self.is_open_batch = true;
                        self.expects.push_copy(ExpectedReply::Execute(0));
                    }
                    Kind::Execute => {
                        self.is_open_batch = true;
                        self.expects.push(ExpectedReply::Execute(0));
                    }
                    Kind::QueryCopy => self.expects.push_copy(ExpectedReply::Query(0)),
                    Kind::Query => drop(self.expects.push(ExpectedReply::Query(0))),
                    Kind::Sync => {
                        let is_read = self.expects.push(ExpectedReply::Sync);
                        self.is_open_batch &= !is_read;
                    }
                    Kind::Done | Kind::Fail => self.expects.end_copy(),
                    Kind::Flush | Kind::Data | Kind::Close | Kind::Probe => {}
                }
                self.sent.push_back(message);
            }
        }

        /// Takes an answer of the server; returns the client's answer.
        fn answered(&mut self, kind: u8) -> Option<u8> {
            let means = self.expects.answered(ReplyKind::of(kind), &mut |_| {}).expect("it answers something");
            let mut out = BytesMut::new();
            self.expects.put_barrier(&mut out);
            if !out.is_empty() {
                [Kind::Sync, Kind::Close, Kind::Sync].into_iter().for_each(|kind| self.send(kind));
            }
            match means {
                ReplyMeaning::Swallow => None,
                ReplyMeaning::Resolved { skips } => {
                    self.is_open_batch = skips;
                    None
                }
                _ => {
                    if kind == b'G' {
                        self.is_open_batch |= self.expects.owes_sync();
                    }
                    Some(kind)
                }
            }
        }
    }

    fn again(expect: &ExpectedReply) -> ExpectedReply {
        match *expect {
            ExpectedReply::Execute(number) => ExpectedReply::Execute(number),
            ExpectedReply::Query(number) => ExpectedReply::Query(number),
            ExpectedReply::Sync => ExpectedReply::Sync,
            ExpectedReply::CopyEnd => ExpectedReply::CopyEnd,
            ExpectedReply::Barrier { own, is_ready } => ExpectedReply::Barrier { own, is_ready },
            ExpectedReply::BarrierSync { skips } => ExpectedReply::BarrierSync { skips },
            ref other => panic!("nobody has asked for {other:?}"),
        }
    }

    /// State of all parties.
    #[derive(Debug)]
    struct World {
        front: Front,
        server: Server,
        /// Answers that the server has not sent yet.
        kept: Vec<u8>,
        /// Server alone, its answers that the client has not received yet, and how many of them it has not sent.
        alone: Server,
        to_hear: VecDeque<u8>,
        alone_kept: usize,
        /// Events so far, for readers of a failure: messages of the client, and a dot for each that the server has
        /// served.
        story: String,
    }

    impl World {
        fn key(&self) -> u64 {
            let World { front, server, kept, alone, to_hear, alone_kept, story: _ } = self;
            let mut hasher = DefaultHasher::new();
            format!("{front:?}").hash(&mut hasher);
            (server, kept, alone, to_hear, alone_kept).hash(&mut hasher);
            hasher.finish()
        }

        fn again(&self, happens: &str) -> World {
            let World { front, server, kept, alone, to_hear, alone_kept, story } = self;
            let story = format!("{story} {happens}");
            let (front, to_hear, kept) = (front.again(), to_hear.clone(), kept.clone());
            World { front, server: *server, kept, alone: *alone, to_hear, alone_kept: *alone_kept, story }
        }

        /// Sends a message of the client.
        fn says(&self, message: Message) -> World {
            let mut next = self.again(&format!("{message:?}"));
            let before = next.alone;
            let answers = next.alone.take(message);
            next.to_hear.extend(answers);
            next.alone_kept += answers.len();
            if next.alone.flushes(before, message, answers) {
                next.alone_kept = 0;
            }
            next.front.input.push_back(message);
            next.front.forward();
            next
        }

        /// Serves one message at the server, and its answers at the proxy.
        fn serves(&self) -> World {
            let mut next = self.again(".");
            let message = next.front.sent.pop_front().expect("there is one");
            let before = next.server;
            let answers = next.server.take(message);
            next.kept.extend(answers);
            if !next.server.flushes(before, message, answers) {
                return next;
            }
            for kind in std::mem::take(&mut next.kept) {
                if let Some(told) = next.front.answered(kind) {
                    assert_eq!(next.to_hear.pop_front(), Some(told), "{next:?}");
                }
                next.front.forward();
            }
            next
        }

        /// Asserts that nothing is under way, and all is as it would be without the proxy.
        fn is_right(&self) {
            if self.server == Server::Gone {
                assert_eq!((self.alone, self.to_hear.len()), (Server::Gone, 0), "{self:?}");
                return;
            }
            // Everything that the server alone has sent was received, and nothing of the client waits for an answer
            // that no server would send.
            assert!(self.to_hear.len() <= self.alone_kept && self.front.input.is_empty(), "{self:?}");
            if !self.kept.is_empty() {
                return;
            }
            assert!(self.to_hear.is_empty(), "{self:?}");
            let is_copy = matches!(self.alone, Server::Copy { .. });
            assert_eq!(self.front.expects.is_empty(), !is_copy, "{self:?}");
            let is_settled = self.front.expects.is_empty() && !self.front.is_open_batch;
            assert!(!is_settled || (self.server, self.alone) == (Server::Idle, Server::Idle), "{self:?}");
            assert_eq!(self.front.expects.skips(), self.alone == Server::Skips, "{self:?}");
        }
    }

    #[test]
    fn a_client_is_told_what_the_server_alone_would_tell_it() {
        use Fails::{Begun, Never, There};
        let copies =
            [Kind::ExecuteCopy, Kind::QueryCopy].map(|kind| [Never, There, Begun].map(|fails| Message(kind, fails)));
        let failing = [Kind::Query, Kind::Sync, Kind::Data, Kind::Done];
        let failing = failing.map(|kind| [Never, There].map(|fails| Message(kind, fails)));
        let others = [Kind::Execute, Kind::Flush, Kind::Fail].map(|kind| Message(kind, Never));
        let letters = [copies.concat(), failing.concat(), others.to_vec()].concat();
        let first = World {
            front: Front::default(),
            server: Server::Idle,
            kept: Vec::new(),
            alone: Server::Idle,
            to_hear: VecDeque::new(),
            alone_kept: 0,
            story: String::new(),
        };
        let lag = std::env::var("OVERTAKE_LAG").map_or(LAG, |lag| lag.parse().expect("a number"));
        let (mut seen, mut ends) = (HashSet::new(), 0);
        // States with fewer messages come first, so that a state is met first with as many to come as possible.
        let mut open = vec![first];
        for left in (0..=LENGTH).rev() {
            let mut next = Vec::new();
            while let Some(world) = open.pop() {
                let Front { sent, input, .. } = &world.front;
                let served = (!sent.is_empty() && world.server != Server::Gone).then(|| world.serves());
                open.extend(served.filter(|served| seen.insert(served.key())));
                if sent.is_empty() {
                    world.is_right();
                    ends += 1;
                }
                if 0 < left && world.alone != Server::Gone && sent.len() + input.len() < lag {
                    let said = letters.iter().map(|&letter| world.says(letter));
                    next.extend(said.filter(|said| seen.insert(said.key())));
                }
            }
            open = next;
        }
        assert!(20 < ends && 1_000 < seen.len());
    }
}
