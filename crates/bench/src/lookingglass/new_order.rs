//! TPC-C's New-Order by each way.
//!
//! **Invariant:** every way gets the same inputs, its lines sorted by their rows of stock. An order whose last item
//! does not exist is rolled back: the client does it, or the stored function fails with 23502 and leaves nothing.

use super::rungs::{Rung, Way};
use crate::wire::tpcc::{Failure, Statements, TpccOutcome, attempt, pipelined_new_order};
use crate::wire::values::Timestamp;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use workloads::tpcc::{Input, Inputs, NewOrderInput, Scale, TransactionKind};

/// Client of New-Order.
pub struct NewOrderCaller {
    way: NewOrderWay,
    inputs: Inputs,
    warehouse: i32,
}

enum NewOrderWay {
    Statements(Box<Statements>),
    Pipelined(Box<Statements>),
    Stored(Statement),
}

impl NewOrderCaller {
    /// Prepares the statements of a rung, for the client with this number.
    ///
    /// # Errors
    /// Errors of the server.
    pub async fn prepare(
        client: &Client,
        rung: &Rung,
        scale: Scale,
        (run_seed, number): (u64, u32),
    ) -> Result<NewOrderCaller, Failure> {
        let statements = async || Statements::prepare(client, scale.districts).await.map(Box::new);
        let way = match rung.way {
            Way::Statements | Way::Deep(_) => NewOrderWay::Statements(statements().await?),
            Way::Pipelined => NewOrderWay::Pipelined(statements().await?),
            Way::Call => {
                let call = format!("select glass_new_order_{}($1, $2, $3, $4, $5, $6, $7)", rung.key);
                NewOrderWay::Stored(client.prepare(&call).await?)
            }
        };
        let seed = run_seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number));
        let inputs = Inputs::new(scale, run_seed, seed);
        Ok(NewOrderCaller { way, inputs, warehouse: number as i32 % scale.warehouses + 1 })
    }

    /// Draws the next order.
    pub fn draw(&mut self) -> Input {
        self.inputs.entry(TransactionKind::NewOrder, self.warehouse)
    }

    /// Makes one attempt at an order.
    ///
    /// # Errors
    /// Errors of the server; the block may be open then.
    pub async fn attempt(&self, client: &Client, input: &Input) -> Result<TpccOutcome, Failure> {
        let Input::NewOrder(order) = input else { return Err(Failure::Missing("a New-Order")) };
        match &self.way {
            NewOrderWay::Statements(statements) => attempt(client, statements, input).await,
            NewOrderWay::Pipelined(statements) => pipelined_new_order(client, statements, order).await,
            NewOrderWay::Stored(call) => stored(client, call, order).await,
        }
    }
}

async fn stored(client: &Client, call: &Statement, input: &NewOrderInput) -> Result<TpccOutcome, Failure> {
    let NewOrderInput { warehouse, district, customer, entered_us, .. } = *input;
    let mut lines = input.lines().to_vec();
    lines.sort_unstable_by_key(|line| (line.supply_warehouse, line.item));
    let items: Vec<i32> = lines.iter().map(|line| line.item).collect();
    let supplies: Vec<i32> = lines.iter().map(|line| line.supply_warehouse).collect();
    let quantities: Vec<i32> = lines.iter().map(|line| line.quantity).collect();
    let entered = Timestamp(entered_us);
    let values: [&(dyn ToSql + Sync); 7] = [&warehouse, &district, &customer, &entered, &items, &supplies, &quantities];
    match client.query_one(call, &values).await {
        Ok(_) => Ok(TpccOutcome::Committed),
        Err(error) if error.code() == Some(&SqlState::NOT_NULL_VIOLATION) => Ok(TpccOutcome::RolledBack),
        Err(error) => Err(error.into()),
    }
}
