//! Goal: joins that make few rows come first, whatever the order in which the statement names its tables.

use super::*;
use crate::scan::EngineTable;
use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{JoinType, col, lit};
use engine::{Column, Engine, EngineConfig, IndexDef, Table, TableDef, Type};

/// Tables of two columns, the first of which is a key of all but `lines`.
struct Shop {
    engine: Engine,
    session: SessionState,
}

impl Shop {
    fn new() -> Shop {
        let engine = Engine::new(EngineConfig::in_memory());
        let session = SessionStateBuilder::new().with_default_features().build();
        let shop = Shop { engine, session };
        shop.table("customers", 150, |id| [id, id % 5], true);
        shop.table("orders", 1_500, |id| [id, id % 150], true);
        shop.table("lines", 6_000, |row| [row / 4, row * 7 % 200], false);
        shop.table("parts", 200, |id| [id, id % 20], true);
        shop
    }

    fn table(&self, name: &str, rows: i32, values: impl Fn(i32) -> [i32; 2], has_key: bool) -> Arc<Table> {
        let columns = vec![Column::required("id", Type::Int32), Column::required("of", Type::Int32)];
        let indexes = if has_key { vec![IndexDef::unique("key", &[0])] } else { Vec::new() };
        let definition = TableDef { name: name.to_owned(), columns, indexes };
        let table = self.engine.create_table(definition).expect("a table");
        let column = |at: usize| Arc::new((0..rows).map(|row| values(row)[at]).collect::<Int32Array>()) as ArrayRef;
        let batch = RecordBatch::try_new(Arc::clone(table.schema()), vec![column(0), column(1)]).expect("rows");
        self.engine.bulk_load(&table, [batch]).expect("rows are loaded");
        table
    }

    fn scan(&self, name: &str) -> LogicalPlanBuilder {
        let table = self.engine.table(name).expect("it was made");
        LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(EngineTable::new(table))), None).expect("a scan")
    }

    /// Returns all four tables, joined as crosses and conditions, in this order.
    fn joined(&self, names: [&str; 4]) -> LogicalPlanBuilder {
        let scans = names.into_iter().map(|name| self.scan(name));
        let cross = scans.reduce(|all, next| all.cross_join(next.build().expect("a plan")).expect("a join"));
        let equal = |left: &str, right: &str| col(left).eq(col(right));
        let condition = equal("orders.of", "customers.id")
            .and(equal("lines.id", "orders.id"))
            .and(equal("lines.of", "parts.id"))
            .and(col("parts.of").eq(lit(3)));
        cross.expect("four").filter(condition).expect("a filter")
    }

    /// Returns the tables in the order of their scans, hashed sides first.
    fn order(&self, plan: LogicalPlanBuilder) -> Vec<String> {
        let plan = plan.build().expect("a plan");
        let columns = plan.schema().columns();
        let ordered = optimized(plan, &self.session, &self.engine.snapshot()).expect("a plan");
        assert_eq!(ordered.schema().columns(), columns);
        let text = ordered.display_indent().to_string();
        let scans = text.lines().filter_map(|line| line.trim().strip_prefix("TableScan: "));
        scans.map(|scan| scan.split([' ', ',']).next().unwrap_or_default().to_owned()).collect()
    }
}

#[test]
fn the_statement_does_not_say_the_order() {
    let shop = Shop::new();
    for names in [
        ["customers", "orders", "lines", "parts"],
        ["parts", "customers", "lines", "orders"],
        ["lines", "orders", "parts", "customers"],
    ] {
        let order = shop.order(shop.joined(names));
        let place = |name: &str| order.iter().position(|one| one == name).expect("it is scanned");
        assert!(place("parts") < place("lines"), "{order:?}: ten parts are hashed, and lines look for them");
        assert!(place("lines") < place("orders"), "{order:?}: few lines are left");
    }
}

#[test]
fn a_semi_join_goes_down_to_what_it_asks() {
    let shop = Shop::new();
    let few = LogicalPlanBuilder::values(vec![vec![lit(7)], vec![lit(8)]]).expect("values");
    let few = few.project([col("column1").alias("wanted")]).expect("a column").build().expect("a plan");
    let all = shop.joined(["customers", "lines", "orders", "parts"]).join_on(
        few,
        JoinType::LeftSemi,
        [col("orders.id").eq(col("wanted"))],
    );
    let order = shop.order(all.expect("a join"));
    assert_eq!(order[0], "orders", "{order:?}: two of them stay");
}

#[test]
fn the_smaller_side_of_an_outer_join_is_kept() {
    let shop = Shop::new();
    let on = || [col("lines.id").eq(col("orders.id"))];
    let joined = |left: &str, right: &str, kind| {
        let right = shop.scan(right).build().expect("a plan");
        shop.order(shop.scan(left).join_on(right, kind, on()).expect("a join"))
    };
    for kind in [JoinType::Left, JoinType::Right, JoinType::Full] {
        assert_eq!(joined("lines", "orders", kind), ["orders", "lines"], "{kind}");
        assert_eq!(joined("orders", "lines", kind), ["orders", "lines"], "{kind}");
    }
}

#[test]
fn samples_say_how_many_rows_there_are() {
    let shop = Shop::new();
    let estimator = Estimator::new(shop.engine.snapshot());
    let rows = |plan: LogicalPlanBuilder| estimator.rows(&plan.build().expect("a plan"));
    assert_eq!(rows(shop.scan("parts")), 200.0);
    assert_eq!(rows(shop.scan("lines")), 6_000.0);
    assert_eq!(rows(shop.scan("parts").filter(col("of").eq(lit(3))).expect("a filter")), 10.0);
    let few = rows(shop.scan("lines").filter(col("id").lt(lit(150))).expect("a filter"));
    assert!((500.0..700.0).contains(&few), "{few} of 600");
    let grouped = shop.scan("parts").aggregate([col("of")], Vec::<Expr>::new()).expect("groups");
    assert_eq!(rows(grouped), 20.0);
    let lines = shop.scan("lines").build().expect("a plan");
    let values = estimator.values(&lines, &col("lines.id"));
    assert!((600.0..6_000.0).contains(&values), "{values} of 1,500");
}
