// TPC-C's New-Order, in the database.

import * as overtake from "./overtake";

const WAREHOUSE = overtake.table("warehouse", "tpcc_warehouse", ["w_id", "w_tax"]);
const DISTRICT = overtake.table("district", "tpcc_district", ["d_w_id", "d_id", "d_tax", "d_next_o_id"]);
const CUSTOMER = overtake.table("customer", "tpcc_customer", ["c_w_id", "c_d_id", "c_id", "c_discount"]);
const ITEM = overtake.table("item", "tpcc_item", ["i_id", "i_price"]);
const STOCK_KEY = ["s_w_id", "s_i_id"];
const STOCK_STATE = ["s_quantity", "s_ytd", "s_order_cnt", "s_remote_cnt"];
const STOCK = overtake.table("stock", "tpcc_stock", [...STOCK_KEY, ...STOCK_STATE]);
const INFOS = Array.from({ length: 10 }, (_, at) => `s_dist_${String(at + 1).padStart(2, "0")}`);
const INFO = overtake.table("info", "tpcc_stock", [...STOCK_KEY, ...INFOS]);
const NUMBER = overtake.table("number", "tpcc_district", ["d_w_id", "d_id", "d_next_o_id"]);
const ORDERS = overtake.table("orders", "tpcc_orders", [
  ...["o_w_id", "o_d_id", "o_id", "o_c_id", "o_entry_d", "o_ol_cnt", "o_all_local"],
]);
const NEW_ORDER = overtake.table("new_order", "tpcc_new_order", ["no_w_id", "no_d_id", "no_o_id"]);
const ORDER_LINE = overtake.table("order_line", "tpcc_order_line", [
  ...["ol_w_id", "ol_d_id", "ol_o_id", "ol_number", "ol_i_id", "ol_supply_w_id", "ol_quantity", "ol_amount"],
  "ol_dist_info",
]);

type State = [bigint, bigint, bigint, bigint];

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
    const stocks = lines.map(({ item, supply }) => batch.get(STOCK, [supply, item], true));
    const infos = lines.map(({ item, supply }) => batch.get(INFO, [supply, item]));
    const place = batch.get(DISTRICT, [warehouse, district], true);
    batch.run();
    const warehouseTax = units(row(home, "warehouse")[1], 4);
    const discount = units(row(buyer, "customer")[3], 4);
    const districtTax = units(row(place, "district")[2], 4);
    const number = row(place, "district")[3] as bigint;

    // The second one: everything that is written.
    batch = call.batch();
    const isLocal = lines.every((line) => line.supply === warehouse) ? 1n : 0n;
    batch.put(NUMBER, [warehouse, district, number + 1n]);
    batch.insert(ORDERS, [warehouse, district, number, customer, entered, BigInt(lines.length), isLocal]);
    batch.insert(NEW_ORDER, [warehouse, district, number]);
    let sum = 0n;
    const taken = new Map<string, State>();
    for (const [at, { item, supply, quantity }] of lines.entries()) {
      const amount = units(row(prices[at], "item")[1], 2) * quantity;
      // A line may have the item of one before.
      const [, , ...fresh] = row(stocks[at], "stock");
      const known = taken.get(`${supply} ${item}`) ?? [fresh[0] as bigint, units(fresh[1], 2), fresh[2], fresh[3]];
      const [before, sold, orders, remotes] = known as State;
      const left = before - quantity >= 10n ? before - quantity : before - quantity + 91n;
      const after: State = [left, sold + 100n * quantity, orders + 1n, remotes + (supply === warehouse ? 0n : 1n)];
      taken.set(`${supply} ${item}`, after);
      batch.put(STOCK, [supply, item, left, new overtake.Decimal(after[1], 2), after[2], after[3]]);
      const info = row(infos[at], "stock")[1 + Number(district)];
      const paid = new overtake.Decimal(amount, 2);
      batch.insert(ORDER_LINE, [warehouse, district, number, BigInt(at + 1), item, supply, quantity, paid, info]);
      sum += amount;
    }
    batch.run();
    return new overtake.Decimal(sum * (10000n - discount) * (10000n + warehouseTax + districtTax), 10);
  },
);

overtake.main();
