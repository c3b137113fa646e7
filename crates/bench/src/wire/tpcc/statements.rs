//! The statements of the five transactions, prepared on one connection.

use tokio_postgres::{Client, Error, Statement};
use workloads::tpcc::LINES_MAX;

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $text:expr,)+) => {
        /// Prepared statements of one connection.
        pub struct Statements {
            $($(#[$doc])* pub(super) $name: Statement,)+
            /// Statements by district, from 1: each reads its own column.
            pub(super) take_stock: Vec<Statement>,
            /// Statements by number of lines, from 1.
            pub(super) insert_lines: Vec<Statement>,
        }

        impl Statements {
            /// Prepares the statements.
            ///
            /// # Errors
            /// Errors of the server.
            pub async fn prepare(client: &Client, districts: i32) -> Result<Statements, Error> {
                let mut take_stock = Vec::new();
                for district in 1..=districts {
                    take_stock.push(client.prepare(&take_stock_text(district)).await?);
                }
                let mut insert_lines = Vec::new();
                for lines in 1..=LINES_MAX {
                    insert_lines.push(client.prepare(&insert_lines_text(lines)).await?);
                }
                Ok(Statements { $($name: client.prepare($text).await?,)+ take_stock, insert_lines })
            }
        }
    };
}

statements! {
    // New-Order.
    customer_and_tax: "select c_discount, c_last, c_credit, w_tax from tpcc_customer, tpcc_warehouse \
        where w_id = $1 and c_w_id = w_id and c_d_id = $2 and c_id = $3",
    next_order: "update tpcc_district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2 \
        returning d_next_o_id, d_tax",
    insert_order: "insert into tpcc_orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
        values ($1, $2, $3, $4, $5, null, $6, $7)",
    insert_new_order: "insert into tpcc_new_order (no_o_id, no_d_id, no_w_id) values ($1, $2, $3)",
    item: "select i_price, i_name, i_data from tpcc_item where i_id = $1",
    // Payment.
    pay_warehouse: "update tpcc_warehouse set w_ytd = w_ytd + $1 where w_id = $2 \
        returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
    pay_district: "update tpcc_district set d_ytd = d_ytd + $1 where d_w_id = $2 and d_id = $3 \
        returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
    customers_by_name: "select c_id from tpcc_customer where c_w_id = $1 and c_d_id = $2 and c_last = $3 order by c_first",
    pay_customer: "update tpcc_customer set c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
        c_payment_cnt = c_payment_cnt + 1 where c_w_id = $2 and c_d_id = $3 and c_id = $4 \
        returning c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit, \
        c_credit_lim, c_discount, c_balance",
    customer_data: "select c_data from tpcc_customer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    set_customer_data: "update tpcc_customer set c_data = $1 where c_w_id = $2 and c_d_id = $3 and c_id = $4",
    insert_history: "insert into tpcc_history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
        values ($1, $2, $3, $4, $5, $6, $7, $8)",
    // Order-Status.
    customer_balance: "select c_balance, c_first, c_middle, c_last from tpcc_customer \
        where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    last_order: "select o_id, o_entry_d, o_carrier_id from tpcc_orders \
        where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 order by o_id desc limit 1",
    order_lines: "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from tpcc_order_line \
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3",
    // Delivery.
    oldest_new_order: "select no_o_id from tpcc_new_order where no_w_id = $1 and no_d_id = $2 order by no_o_id limit 1",
    delete_new_order: "delete from tpcc_new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3",
    set_carrier: "update tpcc_orders set o_carrier_id = $1 where o_w_id = $2 and o_d_id = $3 and o_id = $4 \
        returning o_c_id",
    deliver_lines: "update tpcc_order_line set ol_delivery_d = $1 where ol_w_id = $2 and ol_d_id = $3 and ol_o_id = $4",
    order_amount: "select sum(ol_amount) from tpcc_order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3",
    deliver_customer: "update tpcc_customer set c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 \
        where c_w_id = $2 and c_d_id = $3 and c_id = $4",
    // Stock-Level.
    district_next: "select d_next_o_id from tpcc_district where d_w_id = $1 and d_id = $2",
    low_stock: "select count(distinct s_i_id) from tpcc_order_line, tpcc_stock where ol_w_id = $1 and ol_d_id = $2 \
        and ol_o_id >= $3 and ol_o_id < $4 and s_w_id = $1 and s_i_id = ol_i_id and s_quantity < $5",
}

fn take_stock_text(district: i32) -> String {
    format!(
        "update tpcc_stock set s_quantity = case when s_quantity - $1 >= 10 then s_quantity - $1 \
         else s_quantity - $1 + 91 end, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1, \
         s_remote_cnt = s_remote_cnt + $3 where s_w_id = $4 and s_i_id = $5 \
         returning s_quantity, s_data, s_dist_{district:02}"
    )
}

/// Number of values of one line.
pub(super) const LINE_VALUES: usize = 9;

fn insert_lines_text(lines: usize) -> String {
    let row = |line: usize| {
        let values: Vec<String> = (1..=LINE_VALUES).map(|at| format!("${}", line * LINE_VALUES + at)).collect();
        format!("({}, null)", values.join(", "))
    };
    format!(
        "insert into tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
         ol_amount, ol_dist_info, ol_delivery_d) values {}",
        (0..lines).map(row).collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_values_of_its_own() {
        let text = insert_lines_text(2);
        assert!(text.ends_with(
            "($1, $2, $3, $4, $5, $6, $7, $8, $9, null), ($10, $11, $12, $13, $14, $15, $16, $17, $18, null)"
        ));
        assert!(take_stock_text(3).ends_with("s_dist_03"));
    }
}
