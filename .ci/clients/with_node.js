// Every type, prepared statements, errors, transactions and notifications of settings, by node-postgres.
const { Client, types } = require("pg");
const assert = require("node:assert");

async function main() {
  const client = new Client({ application_name: "node" });
  await client.connect();
  const one = async (text, values) => (await client.query({ text, values, rowMode: "array" })).rows[0][0];
  const values = [
    ["boolean", true], ["int2", -5], ["int4", 2147483647], ["int8", "9007199254740993"], ["float4", 1.5],
    ["float8", -2.5e300], ["numeric", "12345678901234567890.5"], ["text", "grüße 世界 😀"], ["varchar(5)", "abcde"],
    ["uuid", "12345678-1234-5678-1234-567812345678"], ["text[]", ["a,b", 'c"d', null]], ["int4[]", [1, 2, 3]],
  ];
  for (const [kind, value] of values) assert.deepStrictEqual(await one(`select $1::${kind}`, [value]), value, kind);
  assert.deepStrictEqual(await one("select $1::bytea", [Buffer.from([0, 255])]), Buffer.from([0, 255]));
  assert.deepStrictEqual(await one("select $1::json", [{ a: [1, null] }]), { a: [1, null] });
  const moment = new Date("2024-02-29T12:34:56.789Z");
  assert.deepStrictEqual(await one("select $1::timestamptz", [moment]), moment);
  assert.strictEqual(await one("select $1::text is null", [null]), true);
  types.setTypeParser(1082, (text) => text);
  assert.strictEqual(await one("select $1::date", ["2000-02-29"]), "2000-02-29");
  await client.query("create table node_t (id serial primary key, t text)");
  for (let at = 0; at < 3; at++) {
    const named = { name: "insert", text: "insert into node_t (t) values ($1) returning id", values: [`row ${at}`] };
    assert.strictEqual((await client.query(named)).rows[0].id, at + 1);
  }
  const all = await client.query("select id, t from node_t order by id");
  assert.deepStrictEqual(all.rows[2], { id: 3, t: "row 2" });
  assert.strictEqual(all.fields[1].dataTypeID, 25);
  await assert.rejects(client.query("insert into node_t values (1, 'x')"), { code: "23505", table: "node_t" });
  await client.query("begin");
  await client.query("delete from node_t");
  await client.query("rollback");
  assert.strictEqual((await client.query("delete from node_t")).rowCount, 3);
  const several = await client.query("select 1 as a; select 2 as b");
  assert.deepStrictEqual(several.map((result) => result.rows[0]), [{ a: 1 }, { b: 2 }]);
  await client.query("drop table node_t");
  await client.end();
}

main().catch((error) => {
  console.error("node:", error);
  process.exit(1);
});
