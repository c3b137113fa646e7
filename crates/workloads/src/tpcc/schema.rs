//! The nine tables (clause 1.3), and three for the sums of a purge.

use super::columns::*;
use engine::{Column, Engine, Error, IndexDef, InvalidValue, Result, Table, TableDef, Type};
use std::sync::Arc;

/// Tables of one engine.
pub struct TpccTables {
    /// One row per warehouse.
    pub warehouse: Arc<Table>,
    /// Ten rows per warehouse.
    pub district: Arc<Table>,
    /// Table of 3,000 rows per district. Index 1: by last and first name.
    pub customer: Arc<Table>,
    /// One row per payment; no key.
    pub history: Arc<Table>,
    /// One row for each order that is not delivered.
    pub new_order: Arc<Table>,
    /// One row per order. Index 1: by customer.
    pub orders: Arc<Table>,
    /// Five to fifteen rows per order.
    pub order_line: Arc<Table>,
    /// Table of 100,000 rows.
    pub item: Arc<Table>,
    /// Table of 100,000 rows per warehouse.
    pub stock: Arc<Table>,
    /// Tables of the purge's sums; empty unless a purge runs.
    pub purged: PurgeTables,
}

/// Sums of the rows that [`super::Purge`] removed. With them the consistency conditions can still be checked.
pub struct PurgeTables {
    /// Row per district: progress of the purge, and sums of the rows removed there.
    pub district: Arc<Table>,
    /// Row per customer: deliveries and payments removed.
    pub customer: Arc<Table>,
    /// Row per supplying warehouse: order lines removed.
    pub supply: Arc<Table>,
}

/// Primary key: index 0 of every table but `history`.
pub(crate) const PRIMARY: usize = 0;
/// Index 1 of `customer`.
pub(crate) const BY_NAME: usize = 1;
/// Index 1 of `orders`.
pub(crate) const BY_CUSTOMER: usize = 1;

/// Returns the row that an input names, or an error if it does not exist.
pub(crate) fn existing<R>(row: Option<R>, table: &Table) -> Result<R> {
    row.ok_or_else(|| Error::InvalidValue { place: table.name().to_owned(), why: InvalidValue::NoSuchRow })
}

const fn decimal(precision: u8, scale: i8) -> Type {
    Type::Decimal { precision, scale }
}

const MONEY: Type = decimal(12, 2);
/// Type of sums over the life of a warehouse or district: the specification asks for 12 digits at least, which a fast
/// engine fills in minutes.
const YEAR_TO_DATE: Type = decimal(18, 2);
const RATE: Type = decimal(4, 4);

fn required(columns: &[(&str, Type)]) -> Vec<Column> {
    columns.iter().map(|(name, kind)| Column::required(name, *kind)).collect()
}

fn definition(name: &str, columns: Vec<Column>, indexes: Vec<IndexDef>) -> TableDef {
    TableDef { name: format!("tpcc.{name}"), columns, indexes }
}

const ADDRESS: [&str; 5] = ["street_1", "street_2", "city", "state", "zip"];

fn address(prefix: &str) -> Vec<Column> {
    ADDRESS.iter().map(|part| Column::required(&format!("{prefix}_{part}"), Type::Text)).collect()
}

impl TpccTables {
    /// Creates the tables, empty.
    ///
    /// # Errors
    /// An error if one of them exists already.
    pub fn create(engine: &Engine) -> Result<TpccTables> {
        use Type::{Int32, Int64, Text, Timestamp};
        let create = |name, columns, indexes| engine.create_table(definition(name, columns, indexes));
        let primary = |table: &str, columns: &[usize]| IndexDef::unique(&format!("{table}_pkey"), columns);
        let concat = |parts: [Vec<Column>; 3]| parts.into_iter().flatten().collect::<Vec<Column>>();
        Ok(TpccTables {
            warehouse: create(
                "warehouse",
                concat([
                    required(&[("w_id", Int32), ("w_name", Text)]),
                    address("w"),
                    required(&[("w_tax", RATE), ("w_ytd", YEAR_TO_DATE)]),
                ]),
                vec![primary("warehouse", &[warehouse::W_ID])],
            )?,
            district: create(
                "district",
                concat([
                    required(&[("d_id", Int32), ("d_w_id", Int32), ("d_name", Text)]),
                    address("d"),
                    required(&[("d_tax", RATE), ("d_ytd", YEAR_TO_DATE), ("d_next_o_id", Int32)]),
                ]),
                vec![primary("district", &[district::D_W_ID, district::D_ID])],
            )?,
            customer: create("customer", customer_columns(), {
                use customer::*;
                vec![
                    primary("customer", &[C_W_ID, C_D_ID, C_ID]),
                    // Several customers may share both names, so the index is not unique.
                    IndexDef::plain("customer_by_name", &[C_W_ID, C_D_ID, C_LAST, C_FIRST]),
                ]
            })?,
            history: create(
                "history",
                required(&[
                    ("h_c_id", Int32),
                    ("h_c_d_id", Int32),
                    ("h_c_w_id", Int32),
                    ("h_d_id", Int32),
                    ("h_w_id", Int32),
                    ("h_date", Timestamp),
                    ("h_amount", decimal(6, 2)),
                    ("h_data", Text),
                ]),
                // Payments have no key.
                vec![],
            )?,
            new_order: create(
                "new_order",
                required(&[("no_o_id", Int32), ("no_d_id", Int32), ("no_w_id", Int32)]),
                vec![primary("new_order", &[new_order::NO_W_ID, new_order::NO_D_ID, new_order::NO_O_ID])],
            )?,
            orders: create(
                "orders",
                concat([
                    required(&[
                        ("o_id", Int32),
                        ("o_d_id", Int32),
                        ("o_w_id", Int32),
                        ("o_c_id", Int32),
                        ("o_entry_d", Timestamp),
                    ]),
                    vec![Column::nullable("o_carrier_id", Int32)],
                    required(&[("o_ol_cnt", Int32), ("o_all_local", Int32)]),
                ]),
                {
                    use orders::*;
                    vec![
                        primary("orders", &[O_W_ID, O_D_ID, O_ID]),
                        // The order's number comes last, so that a backward scan finds a customer's last order first.
                        IndexDef::unique("orders_by_customer", &[O_W_ID, O_D_ID, O_C_ID, O_ID]),
                    ]
                },
            )?,
            order_line: create(
                "order_line",
                concat([
                    required(&[
                        ("ol_o_id", Int32),
                        ("ol_d_id", Int32),
                        ("ol_w_id", Int32),
                        ("ol_number", Int32),
                        ("ol_i_id", Int32),
                        ("ol_supply_w_id", Int32),
                    ]),
                    vec![Column::nullable("ol_delivery_d", Timestamp)],
                    required(&[("ol_quantity", Int32), ("ol_amount", decimal(6, 2)), ("ol_dist_info", Text)]),
                ]),
                {
                    use order_line::*;
                    vec![primary("order_line", &[OL_W_ID, OL_D_ID, OL_O_ID, OL_NUMBER])]
                },
            )?,
            item: create(
                "item",
                required(&[
                    ("i_id", Int32),
                    ("i_im_id", Int32),
                    ("i_name", Text),
                    ("i_price", decimal(5, 2)),
                    ("i_data", Text),
                ]),
                vec![primary("item", &[item::I_ID])],
            )?,
            stock: create("stock", stock_columns(), vec![primary("stock", &[stock::S_W_ID, stock::S_I_ID])])?,
            purged: PurgeTables {
                district: create(
                    "purged_district",
                    required(&[
                        ("w_id", Int32),
                        ("d_id", Int32),
                        ("next_o_id", Int32),
                        ("orders", Int64),
                        ("paid", YEAR_TO_DATE),
                    ]),
                    vec![primary("purged_district", &[0, 1])],
                )?,
                customer: create(
                    "purged_customer",
                    required(&[
                        ("w_id", Int32),
                        ("d_id", Int32),
                        ("c_id", Int32),
                        ("delivered", YEAR_TO_DATE),
                        ("paid", YEAR_TO_DATE),
                        ("payments", Int64),
                    ]),
                    vec![primary("purged_customer", &[0, 1, 2])],
                )?,
                supply: create(
                    "purged_supply",
                    required(&[
                        ("w_id", Int32),
                        ("quantity", Int64),
                        ("lines", Int64),
                        ("remote_lines", Int64),
                        ("quantity_mark", Int64),
                        ("lines_mark", Int64),
                        ("remote_lines_mark", Int64),
                    ]),
                    vec![primary("purged_supply", &[0])],
                )?,
            },
        })
    }

    /// Returns the nine tables of the specification.
    pub fn all(&self) -> [&Arc<Table>; 9] {
        [
            &self.warehouse,
            &self.district,
            &self.customer,
            &self.history,
            &self.new_order,
            &self.orders,
            &self.order_line,
            &self.item,
            &self.stock,
        ]
    }
}

fn customer_columns() -> Vec<Column> {
    use Type::{Int32, Text, Timestamp};
    let mut columns = required(&[
        ("c_id", Int32),
        ("c_d_id", Int32),
        ("c_w_id", Int32),
        ("c_first", Text),
        ("c_middle", Text),
        ("c_last", Text),
    ]);
    columns.extend(address("c"));
    columns.extend(required(&[
        ("c_phone", Text),
        ("c_since", Timestamp),
        ("c_credit", Text),
        ("c_credit_lim", MONEY),
        ("c_discount", RATE),
        ("c_balance", YEAR_TO_DATE),
        ("c_ytd_payment", YEAR_TO_DATE),
        ("c_payment_cnt", Int32),
        ("c_delivery_cnt", Int32),
        ("c_data", Text),
    ]));
    columns
}

/// Returns the 17 columns of `stock`.
pub(crate) fn stock_columns() -> Vec<Column> {
    use Type::{Int32, Text};
    let mut columns = required(&[("s_i_id", Int32), ("s_w_id", Int32), ("s_quantity", Int32)]);
    columns.extend((1..=10).map(|district| Column::required(&format!("s_dist_{district:02}"), Text)));
    columns.extend(required(&[
        ("s_ytd", decimal(8, 0)),
        ("s_order_cnt", Int32),
        ("s_remote_cnt", Int32),
        ("s_data", Text),
    ]));
    columns
}
