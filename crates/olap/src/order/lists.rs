//! DataFusion's simplifications, kept away from lists whose nulls they would lose.
//!
//! The rule merges the lists of two adjacent terms: `a IN (1) AND a IN (2)` becomes false and `a NOT IN (1) OR a NOT IN
//! (2)` true, which are null where `a` is. It also removes a null from a list like any other value. Equalities that OR
//! connects become a list first.
//!
//! **Invariant:** the rule sees no expression in which it could merge lists and a null counts. A null that counts as
//! false loses nothing by becoming false. That is so in a condition, up to the first operator that is neither AND nor
//! OR.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashMap;
use std::sync::Arc;

/// Name of the rule.
pub(super) const NAME: &str = "simplify_expressions";

/// Wrapper of the rule that skips nodes whose lists it would merge.
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
        let loses = !statement::plants::is_planted("lists_lose_nulls") && loses_nulls(&plan)?;
        if loses { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

/// Weight of two lists of one value, or of a list and two equalities that may become one.
const TWO_LISTS: u32 = 4;
const LIST: u32 = 2;
const EQUALITY: u32 = 1;

/// Meaning of a null result of an expression.
#[derive(Clone, Copy, PartialEq)]
enum NullMeaning {
    /// Null is distinct from false.
    Itself,
    /// Null means false. The flag is true below an OR.
    False(bool),
}

/// Returns true if the rule could lose a null of this node's expressions.
fn loses_nulls(plan: &LogicalPlan) -> Result<bool> {
    let loses = |expr: &Expr, null: NullMeaning| {
        let mut lists = NullLists { plan, weights: HashMap::new(), loses: false };
        lists.look(expr, null)?;
        Ok(lists.loses)
    };
    if let LogicalPlan::Join(join) = plan {
        // Keys are values; only the filter is a condition.
        for (left, right) in &join.on {
            if loses(left, NullMeaning::Itself)? || loses(right, NullMeaning::Itself)? {
                return Ok(true);
            }
        }
        return join.filter.as_ref().map_or(Ok(false), |filter| loses(filter, NullMeaning::False(false)));
    }
    let decides = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::TableScan(_));
    let null = if decides { NullMeaning::False(false) } else { NullMeaning::Itself };
    let mut any = false;
    plan.apply_expressions(|expr| {
        any |= loses(expr, null)?;
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}

/// Lists of an expression in which a null counts.
struct NullLists<'a> {
    plan: &'a LogicalPlan,
    /// Weights by value, or by each column of it: the same value may be written in several ways, as with a cast that
    /// the rule moves to the other side.
    weights: HashMap<String, u32>,
    loses: bool,
}

impl NullLists<'_> {
    fn look(&mut self, expr: &Expr, null: NullMeaning) -> Result<()> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let null = match null {
                    NullMeaning::False(is_below_or) => NullMeaning::False(is_below_or || *op == Operator::Or),
                    NullMeaning::Itself => NullMeaning::Itself,
                };
                self.look(left, null)?;
                return self.look(right, null);
            }
            Expr::Alias(alias) => return self.look(&alias.expr, null),
            Expr::InList(InList { expr: of, list, negated }) => {
                // A null is merged like any other value of a list, and an item that is no literal yet may become one.
                self.loses |= list.iter().any(|item| !matches!(item, Expr::Literal(value, _) if !value.is_null()));
                // Lists that are not negated only become shorter, or false; negated ones only longer, except those that
                // OR connects.
                if null == NullMeaning::Itself || (*negated && null == NullMeaning::False(true)) {
                    self.weigh(of, LIST);
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq | Operator::NotEq, right })
                if null == NullMeaning::Itself =>
            {
                match (&**left, &**right) {
                    (of, Expr::Literal(..)) | (Expr::Literal(..), of) => self.weigh(of, EQUALITY),
                    _ => {}
                }
            }
            // Equal bounds make an equality.
            Expr::Between(between) if null == NullMeaning::Itself => self.weigh(&between.expr, EQUALITY),
            _ => {}
        }
        expr.apply_children(|part| {
            self.look(part, NullMeaning::Itself)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// Returns true if a column of the node's inputs is known to be never null.
    fn is_never_null(&self, column: &Column) -> bool {
        let nullable = match self.plan {
            LogicalPlan::TableScan(scan) => {
                scan.source.schema().field_with_name(&column.name).ok().map(|field| field.is_nullable())
            }
            plan => plan
                .inputs()
                .iter()
                .find_map(|input| Some(input.schema().field_from_column(column).ok()?.is_nullable())),
        };
        nullable == Some(false)
    }

    /// Counts a list of a value, or a term that may become one. Only a column is known to be never null; an expression
    /// over it may be null.
    fn weigh(&mut self, of: &Expr, weight: u32) {
        if let Expr::Column(column) = of
            && self.is_never_null(column)
        {
            return;
        }
        let mut keys: Vec<String> = of.column_refs().into_iter().map(|column| column.flat_name()).collect();
        if keys.is_empty() {
            keys.push(of.to_string());
        }
        for key in keys {
            let sum = self.weights.entry(key).or_default();
            *sum += weight;
            self.loses |= TWO_LISTS <= *sum;
        }
    }
}
