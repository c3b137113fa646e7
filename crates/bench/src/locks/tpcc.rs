//! TPC-C's Payment and New-Order, half and half, on one warehouse.

use super::load::{LockLoad, TransactionScript};
use engine::{Engine, Txn};
use std::sync::Arc;
use workloads::tpcc::{self, Input, Inputs, Mix, Scale, Statements, TpccTables};

/// Load of one warehouse.
pub struct Warehouse {
    tables: Arc<TpccTables>,
    inputs: Inputs,
}

impl Warehouse {
    /// Loads one warehouse.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn load(engine: &Engine, seed: u64) -> anyhow::Result<Warehouse> {
        let tables = tpcc::load(engine, Scale::spec(1), seed, &mut |_| {})?;
        Ok(Warehouse { tables: Arc::new(tables), inputs: inputs(seed) })
    }
}

fn inputs(seed: u64) -> Inputs {
    Inputs::new(Scale::spec(1), seed, seed)
}

impl TransactionScript for Statements {
    fn statements(&self) -> usize {
        self.len()
    }

    fn run(&mut self, at: usize, txn: &Txn<'_>) -> engine::Result<()> {
        Statements::run(self, at, txn)
    }
}

impl LockLoad for Warehouse {
    fn title(&self) -> String {
        "Payment and New-Order on one warehouse".to_owned()
    }

    fn prefix(&self) -> &'static str {
        "locks"
    }

    fn restart(&mut self, seed: u64) {
        self.inputs = inputs(seed);
    }

    fn script(&mut self) -> Box<dyn TransactionScript> {
        let tables = Arc::clone(&self.tables);
        match self.inputs.next(Mix::NewOrderPayment, 1) {
            Input::NewOrder(input) => Box::new(Statements::new_order(tables, input)),
            Input::Payment(input) => Box::new(Statements::payment(tables, input)),
            Input::OrderStatus(_) | Input::Delivery(_) | Input::StockLevel(_) => {
                unreachable!("the mix has New-Order and Payment alone")
            }
        }
    }

    fn committed(&mut self) {}

    fn check(&self, engine: &Engine) -> anyhow::Result<()> {
        let violations = tpcc::check(&engine.snapshot(), &self.tables).err().unwrap_or_default();
        let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
        anyhow::ensure!(lines.is_empty(), "{}", lines.join("\n"));
        Ok(())
    }
}
