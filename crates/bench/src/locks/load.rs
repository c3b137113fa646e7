//! Interfaces of a load: transactions made of statements.

use engine::{Engine, Txn};

/// Transaction, statement by statement. After an abort it begins again with its first one.
pub trait TransactionScript: Send {
    /// Returns the number of statements, the commit excluded.
    fn statements(&self) -> usize;

    /// Runs statement `at`. The statement may run in an urgent context, and again when it had to wait.
    ///
    /// # Errors
    /// Errors of the engine.
    fn run(&mut self, at: usize, txn: &Txn<'_>) -> engine::Result<()>;
}

/// Load of a phase.
pub trait LockLoad: Send {
    /// Returns the title, for people.
    fn title(&self) -> String;

    /// Returns the prefix of the names of the load's figures: `locks`, `locks.hot`.
    fn prefix(&self) -> &'static str;

    /// Begins the load's inputs anew, from `seed`.
    fn restart(&mut self, seed: u64);

    /// Returns the next transaction.
    fn script(&mut self) -> Box<dyn TransactionScript>;

    /// Counts a transaction that has committed.
    fn committed(&mut self);

    /// Checks the load's tables at the end of all phases.
    ///
    /// # Errors
    /// A description of the fault.
    fn check(&self, engine: &Engine) -> anyhow::Result<()>;
}
