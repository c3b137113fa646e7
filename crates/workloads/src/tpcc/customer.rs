//! Search for a customer by number or by last name (clauses 2.5.2.2 and 2.6.2.2).

use super::TpccTables;
use super::input::Whom;
use super::schema::{BY_NAME, PRIMARY, existing};
use engine::{Direction, Result, Row, Txn, Value};

/// Finds a customer by number; or, of those with the last name in the order of first names, number n/2 rounded up.
pub(crate) fn find_customer<'t>(
    txn: &'t Txn<'_>,
    tables: &'t TpccTables,
    warehouse: i32,
    district: i32,
    whom: &Whom,
) -> Result<Row<'t>> {
    use Value::{Int32, Text};
    let [w, d] = [Int32(warehouse), Int32(district)];
    match whom {
        Whom::Number(number) => {
            existing(txn.get(&tables.customer, PRIMARY, &[w, d, Int32(*number)])?, &tables.customer)
        }
        Whom::LastName(name) => {
            let prefix = [w, d, Text(name.as_str())];
            let mut same_name = Vec::with_capacity(16);
            same_name.extend(txn.range(&tables.customer, BY_NAME, &prefix, Direction::Forward)?.read_ahead());
            let middle = same_name.len().div_ceil(2).checked_sub(1).map(|at| same_name[at]);
            existing(middle, &tables.customer)
        }
    }
}
