// New-Order in TypeScript, by node-postgres: the program at the client, and those that call a stored one, enter the same
// orders into equal databases; their answers and all rows afterwards must be equal.
const { Client, types } = require("pg");
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const typescript = require("typescript");

const SDK = path.join(__dirname, "../../sdk/new-order/typescript");
const SQL = path.join(__dirname, "../../crates/bench/src/lookingglass/sql/new_order_sql.sql");
const LEVEL = process.argv[2];
// Tables that New-Order changes, with their keys.
const CHANGED = {
  district: "d_w_id, d_id",
  stock: "s_w_id, s_i_id",
  orders: "o_w_id, o_d_id, o_id",
  new_order: "no_w_id, no_d_id, no_o_id",
  order_line: "ol_w_id, ol_d_id, ol_o_id, ol_number",
};

// Returns the function of a program.
function program(name) {
  const source = fs.readFileSync(path.join(SDK, `${name}.ts`), "utf8");
  const { outputText } = typescript.transpileModule(source, { compilerOptions: { module: "commonjs", target: "es2022" } });
  const module = { exports: {} };
  new Function("module", "exports", "require", outputText)(module, module.exports, require);
  return module.exports.newOrder;
}

// Returns orders: with several lines of one item, of other warehouses' stock, and of items that do not exist.
function orders(warehouses, districts, customers, items) {
  let state = 42;
  const draw = (most) => {
    state = (state * 16807) % 2147483647;
    return (state % most) + 1;
  };
  return Array.from({ length: 40 }, (_, number) => {
    const warehouse = draw(warehouses);
    const lines = Array.from({ length: 4 + draw(11) }, () => {
      const supply = draw(5) === 1 ? draw(warehouses) : warehouse;
      return { item: draw(items), supply, quantity: draw(10) };
    });
    if (number % 3 === 0) Object.assign(lines[2], { item: lines[0].item, supply: lines[0].supply });
    if (number % 10 === 9) lines[3].item = items + 1;
    const entered = `2027-01-15 08:00:${String(number).padStart(2, "0")}`;
    return { warehouse, district: draw(districts), customer: draw(customers), entered, lines };
  });
}

async function main() {
  types.setTypeParser(1114, (text) => text);
  const client = new Client({ application_name: "new_order" });
  await client.connect();
  const number = async (text) => Object.values((await client.query(text)).rows[0])[0];
  for (const table in CHANGED) await client.query(`create table first_${table} as select * from tpcc_${table}`);
  const all = orders(
    await number("select max(w_id) from tpcc_warehouse"),
    await number("select max(d_id) from tpcc_district"),
    await number("select max(c_id) from tpcc_customer"),
    await number("select max(i_id) from tpcc_item"),
  );
  const outcome = async (newOrder) => {
    for (const table in CHANGED) {
      await client.query(`delete from tpcc_${table}; insert into tpcc_${table} select * from first_${table}`);
    }
    const totals = [];
    for (const order of all) totals.push(await newOrder(client, order));
    const rows = {};
    for (const [table, key] of Object.entries(CHANGED)) {
      rows[table] = (await client.query(`select * from tpcc_${table} order by ${key}`)).rows;
    }
    return { totals, rows };
  };
  const expected = await outcome(program("interactive"));
  assert.strictEqual(expected.totals.filter((total) => total === null).length, 4, "items that do not exist");
  assert.ok(expected.rows.order_line.length > (await number("select count(*)::int from first_order_line")));
  if (LEVEL) assert.deepStrictEqual(await outcome(program("call")), expected, LEVEL);
  await client.query("drop function if exists new_order");
  await client.query(fs.readFileSync(SQL, "utf8").replace("glass_new_order_stored_sql", "new_order"));
  assert.deepStrictEqual(await outcome(program("call")), expected, "SQL");
  // The clients after this one look at the whole schema.
  await client.query("drop function new_order");
  const tables = await client.query("select tablename from pg_tables where tablename ~ '^(first|tpcc)_'");
  for (const { tablename } of tables.rows) await client.query(`drop table ${tablename}`);
  await client.end();
}

main().catch((error) => {
  console.error("new_order:", String(error.stack).slice(0, 4000));
  process.exit(1);
});
