//! What a load is: transactions made of statements.

use engine::{Engine, Txn};

/// One transaction, statement by statement. After an abort it begins again with its first one.
pub trait Script: Send {
    /// How many statements it has, its commit excluded.
    fn statements(&self) -> usize;

    /// Runs statement `at`. It may run in an urgent context, and again when it had to wait.
    ///
    /// # Errors
    /// Those of the engine.
    fn run(&mut self, at: usize, txn: &Txn<'_>) -> engine::Result<()>;
}

/// A load.
pub trait Load: Send {
    /// For people.
    fn title(&self) -> String;

    /// Before the names of its figures: `locks`, `locks.hot`.
    fn prefix(&self) -> &'static str;

    /// Begins its inputs anew, from `seed`.
    fn restart(&mut self, seed: u64);

    /// The next transaction.
    fn script(&mut self) -> Box<dyn Script>;

    /// Tells it that a transaction has committed.
    fn committed(&mut self);

    /// Looks at its tables when all is over.
    ///
    /// # Errors
    /// What is wrong with them.
    fn check(&self, engine: &Engine) -> anyhow::Result<()>;
}
