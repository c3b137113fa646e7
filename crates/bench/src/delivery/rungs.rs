//! One phase: a sender, a busy receiver, and one way of delivery between them.
//!
//! **Invariant:** at most one request is on its way. The sender numbers its requests and sends the next one only after
//! the answer to the last, so a stamp in the mailbox always belongs to the request that the sender waits for.

use super::costs;
use anyhow::{Context, bail, ensure};
use host::stop::Stop;
use preempt::os::{self, RunDelay};
use preempt::{Arrival, Delivery, Dense, Mode, Poll, Sent, Serve, Signal, Thread, Worker, safepoint};
use stage::Histogram;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Number of requests before a phase, to warm up.
const WARM_UP: u64 = 200;
/// Maximum time that sender and receiver together may wait for a processor to count as "on CPU".
const RUN_DELAY_NS_MAX: u64 = 100_000;
/// Time after which a request without an answer is lost.
const ANSWER_NS_MAX: u64 = 5_000_000_000;
const PAUSE_NS_MIN: u64 = 50_000;
const PAUSE_NS_SPAN: u64 = 100_000;
const PRIORITY: i32 = 50;

/// Way of delivery: the rungs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryWay {
    /// Flag, seen at the next of the receiver's dense safepoints.
    Poll,
    /// Signal into code without safepoints.
    Signal,
    /// Thread of the real-time class on the receiver's processor.
    RealtimeThread,
    /// Ordinary thread on the receiver's processor; the receiver itself has nice value 19.
    OrdinaryThread,
}

impl DeliveryWay {
    /// Returns the thread rung, as far as this process's privileges go.
    pub fn thread(realtime_allowed: bool) -> DeliveryWay {
        if realtime_allowed { DeliveryWay::RealtimeThread } else { DeliveryWay::OrdinaryThread }
    }

    /// Returns the name in figures.
    pub fn name(self) -> &'static str {
        match self {
            DeliveryWay::Poll => "poll",
            DeliveryWay::Signal => "signal",
            DeliveryWay::RealtimeThread | DeliveryWay::OrdinaryThread => "thread",
        }
    }

    /// Returns the explanation of the measurement, for the report.
    pub fn explanation(self) -> &'static str {
        match self {
            DeliveryWay::Poll => {
                "poll: a flag in the worker's cache line; the worker sums 1,024 rows between safepoints."
            }
            DeliveryWay::Signal => "signal: SIGURG into a sum without safepoints.",
            DeliveryWay::RealtimeThread => "thread: one of class SCHED_FIFO is woken on the worker's processor.",
            DeliveryWay::OrdinaryThread => {
                "thread: the real-time class is not allowed, so an ordinary thread is woken on the processor of the \
                 worker, which has nice value 19. Groups (autogroup, containers) may weaken nice values."
            }
        }
    }

    fn is_thread(self) -> bool {
        matches!(self, DeliveryWay::RealtimeThread | DeliveryWay::OrdinaryThread)
    }

    /// Returns the result that a send must report while no other request is on its way.
    fn expected(self) -> Sent {
        match self {
            DeliveryWay::Poll => Sent::Flagged,
            DeliveryWay::Signal => Sent::Signalled,
            DeliveryWay::RealtimeThread | DeliveryWay::OrdinaryThread => Sent::Woken,
        }
    }
}

/// Work of the busy receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverWork {
    /// The receiver sums rows.
    Working,
    /// The receiver reads the clock, to see how much time it loses.
    Watching,
}

/// Processors of a phase.
#[derive(Clone, Copy)]
pub struct Processors {
    /// Sender's processor.
    pub sender: usize,
    /// Receiver's processor.
    pub receiver: usize,
}

/// Results of one phase.
pub struct RungTimes {
    /// Time from send to first instruction, of all requests.
    pub delay: Histogram,
    /// Time from send to first instruction, of requests during which neither side had to wait for a processor.
    pub delay_on_cpu: Histogram,
    /// Sender's time in `send`.
    pub sender: Histogram,
    /// Receiver's lost time; empty unless it watched.
    pub stolen: Histogram,
    /// Number of requests that reached the receiver in another way than asked, and are not in the other counts.
    pub other: u64,
    /// Number of signals that landed in a region and were served at its end.
    pub deferred: u64,
}

impl RungTimes {
    /// Returns remarks that a reader needs besides the numbers, each sentence with a blank before it.
    pub fn remarks(&self, on_cpu_share: f64) -> String {
        let mut remarks = format!(" {:.1} % of its samples were on CPU.", on_cpu_share * 100.0);
        if on_cpu_share < 0.5 {
            remarks += " That is less than half: this machine is too loaded for the on-CPU figures to mean much.";
        }
        if 0 < self.other {
            remarks += &format!(" {} requests met an urgent context that had not ended, and do not count.", self.other);
        }
        if 0 < self.deferred {
            remarks += &format!(" {} signals landed in a region.", self.deferred);
        }
        remarks
    }
}

/// Mailbox between sender and receiver, away from other cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Mailbox {
    asked: AtomicU64,
    answered: AtomicU64,
    started_ns: AtomicU64,
    deferred: AtomicU64,
    ended: AtomicBool,
}

impl Mailbox {
    /// Stamps and answers the request: the first instructions of the urgent context.
    fn answer(&self) {
        let started_ns = os::now_ns();
        let asked = self.asked.load(Acquire);
        if self.answered.load(Relaxed) != asked {
            self.started_ns.store(started_ns, Relaxed);
            // Release: a thread that sees the answer sees its stamp.
            self.answered.store(asked, Release);
        }
    }

    fn ended(&self) -> bool {
        self.ended.load(Relaxed)
    }
}

/// Urgent work: it answers.
struct MailboxAnswer(Arc<Mailbox>);

impl Serve for MailboxAnswer {
    fn serve(&self, _worker: &'static Worker, arrival: Arrival) {
        self.0.answer();
        if arrival == Arrival::Deferred {
            self.0.deferred.fetch_add(1, Relaxed);
        }
    }
}

/// Guard that ends the phase for the other threads, also when the sender fails.
struct EndOnDrop<'a>(&'a Mailbox);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Relaxed);
    }
}

/// Runs one phase.
///
/// # Errors
/// If the run is stopped, an interrupt is lost, or the kernel refuses something.
pub fn measure(
    way: DeliveryWay,
    busy: ReceiverWork,
    processors: Processors,
    duration: Duration,
    stop: &Stop,
) -> anyhow::Result<RungTimes> {
    let mailbox = Arc::new(Mailbox::default());
    thread::scope(|scope| {
        let end = EndOnDrop(&mailbox);
        let (ready, receiver_ready) = mpsc::channel();
        let receiver = scope.spawn(|| receive(way, busy, processors.receiver, Arc::clone(&mailbox), ready));
        // The channel closes without a value if the receiver failed; its own error is the better one.
        let Ok((worker, run_delay)) = receiver_ready.recv() else {
            receiver.join().expect("the receiver does not panic")?;
            bail!("the receiver ended before it began");
        };
        let urgent =
            way.is_thread().then(|| spawn_urgent(way, processors.receiver, Arc::clone(&mailbox))).transpose()?;
        let delivery: Box<dyn Delivery> = match &urgent {
            Some(urgent) => Box::new(Thread(urgent.thread().clone())),
            None if way == DeliveryWay::Poll => Box::new(Poll),
            None => Box::new(Signal),
        };
        let sender = scope.spawn({
            let mailbox = &*mailbox;
            move || -> anyhow::Result<RungTimes> {
                os::pin_to_cpu(processors.sender)?;
                let target = Receiver { worker, run_delay };
                send_all(way, &*delivery, &target, mailbox, duration, stop)
            }
        });
        // The sender's error is kept until the other threads have ended.
        let measured = sender.join().expect("the sender does not panic");
        drop(end);
        if let Some(urgent) = urgent {
            urgent.thread().unpark();
            urgent.join().expect("the urgent thread does not panic");
        }
        let stolen = receiver.join().expect("the receiver does not panic")?;
        Ok(RungTimes { stolen, ..measured? })
    })
}

/// Receiver as the sender sees it.
struct Receiver {
    worker: &'static Worker,
    run_delay: RunDelay,
}

fn send_all(
    way: DeliveryWay,
    delivery: &dyn Delivery,
    target: &Receiver,
    mailbox: &Mailbox,
    duration: Duration,
    stop: &Stop,
) -> anyhow::Result<RungTimes> {
    let own_delay = RunDelay::open_current()?;
    let waited_ns = || own_delay.read_ns() + target.run_delay.read_ns();
    let clock_ns = costs::clock_ns() as u64;
    let mut measured = RungTimes {
        delay: Histogram::new(),
        delay_on_cpu: Histogram::new(),
        sender: Histogram::new(),
        stolen: Histogram::new(),
        other: 0,
        deferred: 0,
    };
    let mut random = SplitMix64(0x0DD_BA11);
    let mut end_ns = u64::MAX;
    for number in 1.. {
        if number == WARM_UP {
            end_ns = os::now_ns() + duration.as_nanos() as u64;
        }
        stop.wait(Duration::ZERO)?;
        let waited_before_ns = waited_ns();
        mailbox.asked.store(number, Release);
        let send_ns = os::now_ns();
        let sent = delivery.send(target.worker);
        let sent_ns = os::now_ns();
        while mailbox.answered.load(Acquire) != number {
            ensure!(os::now_ns() < sent_ns + ANSWER_NS_MAX, "an interrupt by {} was lost", way.name());
            spin_loop();
        }
        let delay_ns = mailbox.started_ns.load(Relaxed).saturating_sub(send_ns);
        spin_for(PAUSE_NS_MIN + random.below(PAUSE_NS_SPAN));
        let on_cpu = waited_ns() - waited_before_ns <= RUN_DELAY_NS_MAX;
        // A request that travelled in another way than asked says nothing about this rung.
        if sent != way.expected() {
            measured.other += 1;
        } else if WARM_UP < number {
            measured.delay.record_ns(delay_ns);
            measured.sender.record_ns((sent_ns - send_ns).saturating_sub(clock_ns));
            if on_cpu {
                measured.delay_on_cpu.record_ns(delay_ns);
            }
        }
        if 0 < measured.delay.count() && end_ns <= os::now_ns() {
            break;
        }
    }
    measured.deferred = mailbox.deferred.load(Relaxed);
    Ok(measured)
}

fn spin_for(pause_ns: u64) {
    let end_ns = os::now_ns() + pause_ns;
    while os::now_ns() < end_ns {
        spin_loop();
    }
}

/// Random number generator splitmix64 (Steele, Lea and Flood, OOPSLA 2014): pauses need no better, and are the same in
/// each run.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % limit
    }
}

/// Starts the thread that the kernel prefers. It parks while there is no request.
fn spawn_urgent(way: DeliveryWay, processor: usize, mailbox: Arc<Mailbox>) -> anyhow::Result<thread::JoinHandle<()>> {
    let (ready, prepared) = mpsc::channel();
    let urgent = thread::Builder::new().name("urgent".to_owned()).spawn(move || {
        let prepare = || {
            os::pin_to_cpu(processor)?;
            if way == DeliveryWay::RealtimeThread { os::set_realtime(PRIORITY) } else { Ok(()) }
        };
        let result = prepare();
        let is_ready = result.is_ok();
        // If there is no receiver any more, the phase has ended.
        let _ = ready.send(result);
        while is_ready && !mailbox.ended() {
            mailbox.answer();
            thread::park();
        }
    })?;
    prepared.recv().context("the urgent thread ended")?.context("the kernel refuses the urgent thread")?;
    Ok(urgent)
}

/// Runs the receiver's thread: a worker that is busy until the phase ends. Returns the time stolen from it.
fn receive(
    way: DeliveryWay,
    busy: ReceiverWork,
    processor: usize,
    mailbox: Arc<Mailbox>,
    ready: mpsc::Sender<(&'static Worker, RunDelay)>,
) -> anyhow::Result<Histogram> {
    os::pin_to_cpu(processor)?;
    if way == DeliveryWay::OrdinaryThread {
        os::set_nice(19)?;
    }
    let rows = costs::rows();
    let mut stolen = Histogram::new();
    let registration = preempt::register("receiver", Arc::new(MailboxAnswer(Arc::clone(&mailbox))))?;
    registration.worker().set_mode(Mode::Foreign);
    // If there is no receiver any more, the phase has ended.
    let _ = ready.send((registration.worker(), RunDelay::open_current()?));
    match (way, busy) {
        (DeliveryWay::Poll, ReceiverWork::Working) => work_densely(&rows, &mailbox),
        (DeliveryWay::Poll, ReceiverWork::Watching) => watch_densely(&rows, &mailbox, &mut stolen),
        (_, ReceiverWork::Working) => work(&rows, &mailbox),
        (_, ReceiverWork::Watching) => watch(&mailbox, &mut stolen),
    }
    Ok(stolen)
}

fn work(rows: &[i64], mailbox: &Mailbox) {
    while !mailbox.ended() {
        black_box(costs::sum(black_box(rows)));
    }
}

fn work_densely(rows: &[i64], mailbox: &Mailbox) {
    let _dense = Dense::enter();
    while !mailbox.ended() {
        black_box(costs::sum_with_safepoints(black_box(rows)));
    }
}

/// Reads the clock without end. The gap in which an answer was given is the time that the interrupt took.
fn watch(mailbox: &Mailbox, stolen: &mut Histogram) {
    let clock_ns = costs::clock_ns() as u64;
    let mut answered_before = 0;
    let mut before_ns = os::now_ns();
    loop {
        let now_ns = os::now_ns();
        let answered = mailbox.answered.load(Relaxed);
        if answered == answered_before {
            before_ns = now_ns;
        } else {
            // The interrupt came between the last two readings, or just after the latter.
            let gap_ns = (now_ns - before_ns).max(os::now_ns() - now_ns);
            if WARM_UP < answered {
                stolen.record_ns(gap_ns.saturating_sub(clock_ns));
            }
            answered_before = answered;
            before_ns = os::now_ns();
        }
        // This check comes last, so that the last answer is seen.
        if mailbox.ended() {
            break;
        }
    }
}

/// Sums rows and reads the clock around each safepoint.
fn watch_densely(rows: &[i64], mailbox: &Mailbox, stolen: &mut Histogram) {
    let clock_ns = costs::clock_ns() as u64;
    let _dense = Dense::enter();
    let mut answered_before = 0;
    while !mailbox.ended() {
        for block in black_box(rows).chunks(costs::ROWS_PER_SAFEPOINT) {
            black_box(costs::sum(block));
            let before_ns = os::now_ns();
            safepoint();
            let answered = mailbox.answered.load(Relaxed);
            if answered != answered_before {
                let gap_ns = os::now_ns() - before_ns;
                if WARM_UP < answered {
                    stolen.record_ns(gap_ns.saturating_sub(clock_ns));
                }
                answered_before = answered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_the_same_in_each_run_and_below_their_limit() {
        let pauses = || {
            let mut random = SplitMix64(1);
            (0..1_000).map(|_| random.below(PAUSE_NS_SPAN)).collect::<Vec<u64>>()
        };
        assert_eq!(pauses(), pauses());
        assert!(pauses().iter().all(|pause| *pause < PAUSE_NS_SPAN));
        assert!(pauses().iter().any(|pause| PAUSE_NS_SPAN / 2 < *pause));
    }

    #[test]
    fn an_answer_is_given_once_for_each_request() {
        let mailbox = Mailbox::default();
        mailbox.answer();
        assert_eq!(mailbox.started_ns.load(Relaxed), 0, "nothing was asked");
        mailbox.asked.store(1, Relaxed);
        mailbox.answer();
        let first_ns = mailbox.started_ns.load(Relaxed);
        mailbox.answer();
        assert_eq!(mailbox.started_ns.load(Relaxed), first_ns);
        assert_eq!(mailbox.answered.load(Relaxed), 1);
    }
}
