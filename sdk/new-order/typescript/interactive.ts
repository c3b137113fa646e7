// TPC-C's New-Order, statement by statement.

import type { Client } from "pg";
import type { Order } from "./order";

/** Enters an order. Returns the total in cents, or null if an item does not exist. */
export async function newOrder(client: Client, order: Order): Promise<number | null> {
  const { warehouse, district, customer, entered, lines } = order;
  const one = async (text: string, values: unknown[]) =>
    (await client.query({ text, values, rowMode: "array" })).rows[0];
  await client.query("BEGIN");
  try {
    const [warehouseTax, discount] = await one(
      `SELECT (w_tax * 10000)::int, (c_discount * 10000)::int FROM tpcc_warehouse, tpcc_customer
       WHERE w_id = $1 AND c_w_id = $1 AND c_d_id = $2 AND c_id = $3`,
      [warehouse, district, customer],
    );
    const [number, districtTax] = await one(
      `UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2
       RETURNING d_next_o_id - 1, (d_tax * 10000)::int`,
      [warehouse, district],
    );
    const isLocal = lines.every((line) => line.supply === warehouse) ? 1 : 0;
    await client.query(
      `INSERT INTO tpcc_orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
       VALUES ($1, $2, $3, $4, $5, $6, $7)`,
      [warehouse, district, number, customer, entered, lines.length, isLocal],
    );
    await client.query("INSERT INTO tpcc_new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)", [
      warehouse,
      district,
      number,
    ]);
    let sum = 0;
    for (const [at, { item, supply, quantity }] of lines.entries()) {
      const found = await one("SELECT (i_price * 100)::int FROM tpcc_item WHERE i_id = $1", [item]);
      if (!found) {
        await client.query("ROLLBACK");
        return null;
      }
      const amount = found[0] * quantity;
      const [info] = await one(
        `UPDATE tpcc_stock SET
           s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END,
           s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4
         WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_${String(district).padStart(2, "0")}`,
        [supply, item, quantity, supply === warehouse ? 0 : 1],
      );
      await client.query(
        `INSERT INTO tpcc_order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id,
           ol_quantity, ol_amount, ol_dist_info)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8::bigint * 0.01, $9)`,
        [warehouse, district, number, at + 1, item, supply, quantity, amount, info],
      );
      sum += amount;
    }
    await client.query("COMMIT");
    return Math.round((sum * (10000 - discount) * (10000 + warehouseTax + districtTax)) / 1e8);
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}
