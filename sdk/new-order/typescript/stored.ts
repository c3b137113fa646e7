// TPC-C's New-Order, in the database.

import * as overtake from "./overtake";

const WAREHOUSE = overtake.table("warehouse", "tpcc_warehouse", ["w_id", "w_tax"]);
const DISTRICT = overtake.table("district", "tpcc_district", ["d_w_id", "d_id", "d_tax", "d_next_o_id"]);
const CUSTOMER = overtake.table("customer", "tpcc_customer", ["c_w_id", "c_d_id", "c_id", "c_discount"]);
const ITEM = overtake.table("item", "tpcc_item", ["i_id", "i_price"]);
const INFOS = Array.from({ length: 10 }, (_, at) => `s_dist_${String(at + 1).padStart(2, "0")}`);
const STOCK = overtake.table("stock", "tpcc_stock", ["s_w_id", "s_i_id", ...INFOS]);
const ORDERS = overtake.table("orders", "tpcc_orders", [
  ...["o_w_id", "o_d_id", "o_id", "o_c_id", "o_entry_d", "o_ol_cnt", "o_all_local"],
]);
const NEW_ORDER = overtake.table("new_order", "tpcc_new_order", ["no_w_id", "no_d_id", "no_o_id"]);
const ORDER_LINE = overtake.table("order_line", "tpcc_order_line", [
  ...["ol_w_id", "ol_d_id", "ol_o_id", "ol_number", "ol_i_id", "ol_supply_w_id", "ol_quantity", "ol_amount"],
  "ol_dist_info",
]);

const NUMBER = overtake.statement(
  "number",
  "UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2",
);
const TAKE = overtake.statement(
  "take",
  `UPDATE tpcc_stock SET
     s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END,
     s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4
   WHERE s_w_id = $1 AND s_i_id = $2`,
);

/** Returns a number of this many digits after the point as an integer. */
function units(value: overtake.Value, scale: number): bigint {
  if (typeof value === "bigint") return value * 10n ** BigInt(scale);
  const { unscaled, scale: own } = value as overtake.Decimal;
  return unscaled * 10n ** BigInt(scale - own);
}

function row(read: () => overtake.Row | null, what: string): overtake.Row {
  const found = read();
  if (!found) throw new overtake.SqlError("23502", `the ${what} does not exist`);
  return found;
}

/** Enters an order. Returns the total; fails with 23502 if an item does not exist. */
overtake.scalar(
  "new_order",
  (
    call,
    warehouse: bigint,
    district: bigint,
    customer: bigint,
    entered: overtake.Moment,
    items: bigint[],
    supplies: bigint[],
    quantities: bigint[],
  ) => {
    const lines = items.map((item, at) => ({ item, supply: supplies[at], quantity: quantities[at] }));

    // The first batch: everything that is read. The district, which all its orders want, is locked last.
    let batch = call.batch();
    const home = batch.get(WAREHOUSE, [warehouse]);
    const buyer = batch.get(CUSTOMER, [warehouse, district, customer]);
    const prices = lines.map(({ item }) => batch.get(ITEM, [item]));
    const stocks = lines.map(({ item, supply }) => batch.get(STOCK, [supply, item]));
    const place = batch.get(DISTRICT, [warehouse, district], true);
    batch.run();
    const warehouseTax = units(row(home, "warehouse")[1], 4);
    const discount = units(row(buyer, "customer")[3], 4);
    const districtTax = units(row(place, "district")[2], 4);
    const number = row(place, "district")[3] as bigint;

    // The second one: everything that is written.
    batch = call.batch();
    const isLocal = lines.every((line) => line.supply === warehouse) ? 1n : 0n;
    batch.execute(NUMBER, [warehouse, district]);
    batch.insert(ORDERS, [warehouse, district, number, customer, entered, BigInt(lines.length), isLocal]);
    batch.insert(NEW_ORDER, [warehouse, district, number]);
    let sum = 0n;
    for (const [at, { item, supply, quantity }] of lines.entries()) {
      const amount = units(row(prices[at], "item")[1], 2) * quantity;
      const info = row(stocks[at], "stock")[1 + Number(district)];
      batch.execute(TAKE, [supply, item, quantity, supply === warehouse ? 0n : 1n]);
      const paid = new overtake.Decimal(amount, 2);
      batch.insert(ORDER_LINE, [warehouse, district, number, BigInt(at + 1), item, supply, quantity, paid, info]);
      sum += amount;
    }
    batch.run();
    return new overtake.Decimal(sum * (10000n - discount) * (10000n + warehouseTax + districtTax), 10);
  },
);

overtake.main();
