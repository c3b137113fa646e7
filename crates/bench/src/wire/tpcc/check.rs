//! TPC-C's consistency conditions (clause 3.3.2), asked in SQL.
//!
//! **Invariant:** a query counts the violations of its condition; a count above zero fails the run, and a condition
//! that the server does not support is named in the report.

use super::super::client::Control;
use super::super::servers::MeasuredServer;
use anyhow::ensure;
use host::stop::Stop;
use std::time::Duration;

/// Numbers of the specification, and queries that count violations.
const CONDITIONS: [(u32, &str); 11] = [
    (
        1,
        "select count(*) from tpcc_warehouse, (select d_w_id, sum(d_ytd) as paid from tpcc_district group by d_w_id) as d \
         where w_id = d_w_id and w_ytd <> paid",
    ),
    (
        2,
        "select count(*) from tpcc_district, (select o_w_id, o_d_id, max(o_id) as last from tpcc_orders group by o_w_id, o_d_id) as o, \
         (select no_w_id, no_d_id, max(no_o_id) as last_new from tpcc_new_order group by no_w_id, no_d_id) as n \
         where o_w_id = d_w_id and o_d_id = d_id and no_w_id = d_w_id and no_d_id = d_id \
         and (d_next_o_id - 1 <> last or last <> last_new)",
    ),
    (
        3,
        "select count(*) from (select max(no_o_id) - min(no_o_id) + 1 as span, count(*) as there from tpcc_new_order \
         group by no_w_id, no_d_id) as n where span <> there",
    ),
    (
        4,
        "select count(*) from (select o_w_id, o_d_id, sum(o_ol_cnt) as claimed from tpcc_orders group by o_w_id, o_d_id) as o, \
         (select ol_w_id, ol_d_id, count(*) as there from tpcc_order_line group by ol_w_id, ol_d_id) as l \
         where o_w_id = ol_w_id and o_d_id = ol_d_id and claimed <> there",
    ),
    (
        5,
        "select count(*) from tpcc_orders left join tpcc_new_order \
         on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id where (o_carrier_id is null) <> (no_o_id is not null)",
    ),
    (
        6,
        "select count(*) from tpcc_orders left join (select ol_w_id, ol_d_id, ol_o_id, count(*) as there from tpcc_order_line \
         group by ol_w_id, ol_d_id, ol_o_id) as l on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
         where there is null or there <> o_ol_cnt",
    ),
    (
        7,
        "select count(*) from tpcc_order_line, tpcc_orders where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
         and (ol_delivery_d is null) <> (o_carrier_id is null)",
    ),
    (
        8,
        "select count(*) from tpcc_warehouse, (select h_w_id, sum(h_amount) as paid from tpcc_history group by h_w_id) as h \
         where w_id = h_w_id and w_ytd <> paid",
    ),
    (
        9,
        "select count(*) from tpcc_district, (select h_w_id, h_d_id, sum(h_amount) as paid from tpcc_history \
         group by h_w_id, h_d_id) as h where d_w_id = h_w_id and d_id = h_d_id and d_ytd <> paid",
    ),
    (
        10,
        "select count(*) from tpcc_customer \
          left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered from tpcc_orders, tpcc_order_line \
          where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and ol_delivery_d is not null \
          group by o_w_id, o_d_id, o_c_id) as d on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id \
          left join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from tpcc_history \
          group by h_c_w_id, h_c_d_id, h_c_id) as h on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id \
          where c_balance <> coalesce(delivered, 0) - coalesce(paid, 0)",
    ),
    (
        12,
        "select count(*) from tpcc_customer \
          left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered from tpcc_orders, tpcc_order_line \
          where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and ol_delivery_d is not null \
          group by o_w_id, o_d_id, o_c_id) as d on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id \
          where c_balance + c_ytd_payment <> coalesce(delivered, 0)",
    ),
];

/// Checks all conditions, and returns a sentence that says so.
///
/// # Errors
/// The first violated condition; a stop.
pub fn check(target: &MeasuredServer, stop: &Stop) -> anyhow::Result<String> {
    let control = Control::connect(target)?;
    let (mut held, mut unasked) = (Vec::new(), Vec::new());
    for (number, query) in CONDITIONS {
        stop.wait(Duration::ZERO)?;
        match control.rows_if_supported(query)? {
            Ok(rows) => {
                let count = rows.first().and_then(|row| row.first()).and_then(|cell| cell.as_deref());
                ensure!(
                    count == Some("0"),
                    "{}: TPC-C's consistency condition {number} is violated {} times",
                    target.title,
                    count.unwrap_or("an unknown number of")
                );
                held.push(number.to_string());
            }
            Err(refused) => unasked.push(format!("{number} ({refused})")),
        }
    }
    let mut sentence = format!("{}: TPC-C's consistency conditions hold afterwards: {}", target.title, held.join(", "));
    if !unasked.is_empty() {
        sentence += &format!("; the server cannot be asked for {}", unasked.join(", "));
    }
    Ok(sentence + ".")
}
