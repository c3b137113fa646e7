//! The eight tables: names, columns, and numbers of rows at a scale factor.
//!
//! Invariant: a definition's columns have the names, the order and the types of the generator's batches; the load
//! refuses anything else. Money is exact: `Decimal(15, 2)`.

use engine::{Column, TableDef, Type};

/// Table of TPC-H.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TpchTable {
    /// Table of 5 rows.
    Region,
    /// Table of 25 rows.
    Nation,
    /// Table of 10,000 rows at scale factor 1.
    Supplier,
    /// Table of 150,000 rows at scale factor 1.
    Customer,
    /// Table of 200,000 rows at scale factor 1.
    Part,
    /// Table of 800,000 rows at scale factor 1.
    PartSupp,
    /// Table of 1,500,000 rows at scale factor 1.
    Orders,
    /// Table of about 6,000,000 rows at scale factor 1.
    LineItem,
}

const MONEY: Type = Type::Decimal { precision: 15, scale: 2 };
use Type::{Date, Int32, Int64, Text};

impl TpchTable {
    /// Every table, small ones first.
    pub const ALL: [TpchTable; 8] = [
        TpchTable::Region,
        TpchTable::Nation,
        TpchTable::Supplier,
        TpchTable::Customer,
        TpchTable::Part,
        TpchTable::PartSupp,
        TpchTable::Orders,
        TpchTable::LineItem,
    ];

    /// Returns the table's name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            TpchTable::Region => "region",
            TpchTable::Nation => "nation",
            TpchTable::Supplier => "supplier",
            TpchTable::Customer => "customer",
            TpchTable::Part => "part",
            TpchTable::PartSupp => "partsupp",
            TpchTable::Orders => "orders",
            TpchTable::LineItem => "lineitem",
        }
    }

    /// Returns the definition that the engine is asked to create.
    pub fn definition(self) -> TableDef {
        TableDef {
            name: self.name().to_owned(),
            columns: self.columns().iter().map(|(name, kind)| Column::required(name, *kind)).collect(),
            indexes: Vec::new(),
        }
    }

    /// Returns the expected number of rows. Exact but for line items, whose number per order is random (1 to 7, 4 on
    /// average).
    pub fn rows_expected(self, scale_factor: f64) -> u64 {
        let scaled = |base: f64| (base * scale_factor).round() as u64;
        match self {
            TpchTable::Region => 5,
            TpchTable::Nation => 25,
            TpchTable::Supplier => scaled(10_000.0),
            TpchTable::Customer => scaled(150_000.0),
            TpchTable::Part => scaled(200_000.0),
            TpchTable::PartSupp => scaled(800_000.0),
            TpchTable::Orders => scaled(1_500_000.0),
            TpchTable::LineItem => scaled(6_000_000.0),
        }
    }

    fn columns(self) -> &'static [(&'static str, Type)] {
        match self {
            // Keys are `Int64`, because the generator's batches have them so.
            TpchTable::Region => &[("r_regionkey", Int64), ("r_name", Text), ("r_comment", Text)],
            TpchTable::Nation => {
                &[("n_nationkey", Int64), ("n_name", Text), ("n_regionkey", Int64), ("n_comment", Text)]
            }
            TpchTable::Supplier => &[
                ("s_suppkey", Int64),
                ("s_name", Text),
                ("s_address", Text),
                ("s_nationkey", Int64),
                ("s_phone", Text),
                ("s_acctbal", MONEY),
                ("s_comment", Text),
            ],
            TpchTable::Customer => &[
                ("c_custkey", Int64),
                ("c_name", Text),
                ("c_address", Text),
                ("c_nationkey", Int64),
                ("c_phone", Text),
                ("c_acctbal", MONEY),
                ("c_mktsegment", Text),
                ("c_comment", Text),
            ],
            TpchTable::Part => &[
                ("p_partkey", Int64),
                ("p_name", Text),
                ("p_mfgr", Text),
                ("p_brand", Text),
                ("p_type", Text),
                ("p_size", Int32),
                ("p_container", Text),
                ("p_retailprice", MONEY),
                ("p_comment", Text),
            ],
            TpchTable::PartSupp => &[
                ("ps_partkey", Int64),
                ("ps_suppkey", Int64),
                ("ps_availqty", Int32),
                ("ps_supplycost", MONEY),
                ("ps_comment", Text),
            ],
            TpchTable::Orders => &[
                ("o_orderkey", Int64),
                ("o_custkey", Int64),
                ("o_orderstatus", Text),
                ("o_totalprice", MONEY),
                ("o_orderdate", Date),
                ("o_orderpriority", Text),
                ("o_clerk", Text),
                ("o_shippriority", Int32),
                ("o_comment", Text),
            ],
            TpchTable::LineItem => &[
                ("l_orderkey", Int64),
                ("l_partkey", Int64),
                ("l_suppkey", Int64),
                ("l_linenumber", Int32),
                ("l_quantity", MONEY),
                ("l_extendedprice", MONEY),
                ("l_discount", MONEY),
                ("l_tax", MONEY),
                ("l_returnflag", Text),
                ("l_linestatus", Text),
                ("l_shipdate", Date),
                ("l_commitdate", Date),
                ("l_receiptdate", Date),
                ("l_shipinstruct", Text),
                ("l_shipmode", Text),
                ("l_comment", Text),
            ],
        }
    }
}
