//! DataFusion's simplifications, kept away from lists whose nulls they lose.
//!
//! The rule merges the lists of two neighbours: `a IN (1) AND a IN (2)` becomes false and `a NOT IN (1) OR a NOT IN (2)` true, which
//! are null where `a` is; and it takes a null out of a list as any other value. Equalities that OR connects become a list first.
//!
//! **Invariant:** the rule sees no expression in which it could merge lists and a null counts. A null that counts as false loses
//! nothing by becoming false: so it is in a condition, up to the first operator that is neither AND nor OR.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashMap;
use std::sync::Arc;

/// The name of the rule.
pub(super) const NAME: &str = "simplify_expressions";

/// The rule, which leaves nodes alone whose lists it would merge.
#[derive(Debug)]
pub(super) struct KeepNulls(pub(super) Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for KeepNulls {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let loses = !sql::plants::is_planted("lists_lose_nulls") && loses_nulls(&plan)?;
        if loses { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

/// What two lists of one column weigh, or a list and two equalities that may become one.
const TWO_LISTS: u32 = 4;
const LIST: u32 = 2;
const EQUALITY: u32 = 1;

/// Tells whether the rule could lose a null of this node's expressions.
fn loses_nulls(plan: &LogicalPlan) -> Result<bool> {
    let decides = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::TableScan(_));
    let schemas: Vec<DFSchema> = match plan {
        LogicalPlan::TableScan(scan) => {
            vec![DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?]
        }
        _ => plan.inputs().iter().map(|input| input.schema().as_ref().clone()).collect(),
    };
    let mut loses = false;
    plan.apply_expressions(|expr| {
        let mut lists = Lists { schemas: &schemas, weights: HashMap::new(), loses: false };
        lists.look(expr, decides)?;
        loses |= lists.loses;
        Ok(if loses { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(loses)
}

/// The lists of an expression in which a null counts.
struct Lists<'a> {
    schemas: &'a [DFSchema],
    weights: HashMap<Column, u32>,
    loses: bool,
}

impl Lists<'_> {
    /// Goes through an expression. `decides`: its null counts as false.
    fn look(&mut self, expr: &Expr, decides: bool) -> Result<()> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
                self.look(left, decides)?;
                return self.look(right, decides);
            }
            Expr::Alias(alias) => return self.look(&alias.expr, decides),
            Expr::InList(InList { expr: of, list, negated }) => {
                // A list without a value that is not null is merged with others as any other is.
                self.loses |= list.iter().any(|item| matches!(item, Expr::Literal(value, _) if value.is_null()));
                if *negated || !decides {
                    self.weigh(of, LIST);
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq | Operator::NotEq, right }) if !decides => {
                match (&**left, &**right) {
                    (of, Expr::Literal(..)) | (Expr::Literal(..), of) => self.weigh(of, EQUALITY),
                    _ => {}
                }
            }
            // Equal bounds make an equality.
            Expr::Between(between) if !decides => self.weigh(&between.expr, EQUALITY),
            _ => {}
        }
        expr.apply_children(|part| {
            self.look(part, false)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// A list, or what may become one, of a value.
    fn weigh(&mut self, of: &Expr, weight: u32) {
        // The same value may be written in several ways, as with a cast that the rule moves to the other side.
        for column in of.column_refs() {
            let nullable =
                self.schemas.iter().find_map(|schema| Some(schema.field_from_column(column).ok()?.is_nullable()));
            if nullable != Some(false) {
                let sum = self.weights.entry(column.clone()).or_default();
                *sum += weight;
                self.loses |= TWO_LISTS <= *sum;
            }
        }
    }
}
