"""What asyncpg does, all of it binary: values, its own queries of types, prepared statements, cursors, COPY, pools."""
import asyncio
import datetime as dt
import decimal
import io
import os
import sys
import uuid

import asyncpg

D = decimal.Decimal
failures = []


def check(what, found, wanted):
    if found != wanted:
        failures.append(f"{what}: {found!r} is not {wanted!r}")


VALUES = [
    ("bool", True), ("int2", -7), ("int4", 2**31 - 1), ("int8", -(2**63)), ("float4", 0.25), ("float8", 1e-300), ("numeric", D("-123456789.000123")),
    ("numeric", D("0")), ("numeric", D("1e20")), ("text", "a'b\\c\u4e16"), ("varchar", "abc"), ("bytea", b"\0\xff"), ("date", dt.date(1, 1, 1)), ("time", dt.time(1, 2, 3, 4)),
    ("timestamp", dt.datetime(2001, 2, 3, 4, 5, 6, 7)), ("timestamptz", dt.datetime(2001, 2, 3, tzinfo=dt.timezone.utc)),
    ("interval", dt.timedelta(days=40, seconds=5)), ("uuid", uuid.UUID(int=7)), ("json", '{"a": 1}'), ("oid", 2**32 - 1), ("name", "n"),
    ("int4[]", [1, None, 2]), ("text[]", ["a,b", None, ""]), ("numeric[]", [D("1.5")]), ("date[]", [dt.date(2000, 1, 1)]), ("int4[]", []),
]


async def main():
    connection = await asyncpg.connect(database=os.environ["PGDATABASE"])
    for kind, value in VALUES:
        try:
            check(kind, await connection.fetchval(f"select $1::{kind}", value), value)
            check(f"null {kind}", await connection.fetchval(f"select $1::{kind}", None), None)
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            failures.append(f"{kind}: {error!r}")
    await connection.execute("drop table if exists ap; create table ap (id int primary key, t text, n numeric)")
    await connection.executemany("insert into ap values ($1, $2, $3)", [(n, f"row {n}", D(n)) for n in range(500)])
    rows = [(n, None, D(n) / 8) for n in range(500, 1500)]
    check("copy in", await connection.copy_records_to_table("ap", records=rows), "COPY 1000")
    out = io.BytesIO()
    await connection.copy_from_query("select id, t from ap where id in (1, 600) order by id", output=out, format="csv")
    check("copy out", out.getvalue(), b"1,row 1\n600,\n")
    async with connection.transaction(isolation="repeatable_read"):
        count = 0
        async for row in connection.cursor("select id from ap order by id", prefetch=100):
            check("a cursor", row["id"], count)
            count += 1
        check("its rows", count, 1500)
        cursor = await connection.cursor("select id from ap order by id")
        check("forward", (await cursor.forward(10), (await cursor.fetchrow())[0], len(await cursor.fetch(5))), (10, 10, 5))
    statement = await connection.prepare("select t, n from ap where id = $1")
    check("attributes", [(a.name, a.type.name) for a in statement.get_attributes()], [("t", "text"), ("n", "numeric")])
    check("parameters", [p.name for p in statement.get_parameters()], ["int4"])
    check("a row", tuple(await statement.fetchrow(7)), ("row 7", D(7)))
    try:
        async with connection.transaction():
            await connection.execute("insert into ap values (1)")
    except asyncpg.UniqueViolationError as error:
        check("its fields", (error.table_name, error.constraint_name, error.schema_name), ("ap", "ap_pkey", "public"))
    try:
        await connection.execute("select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b", timeout=0.2)
        failures.append("a timeout")
    except asyncio.TimeoutError:
        pass
    check("after it", await connection.fetchval("select 1"), 1)
    check("a table changes", await connection.execute("alter table ap add column extra int"), "ALTER TABLE")
    check("its query", len(await connection.fetchrow("select * from ap where id = 1")), 4)
    await connection.reset()
    check("reset", await connection.fetchval("show search_path"), '"$user", public')
    await connection.close()
    async with asyncpg.create_pool(database=os.environ["PGDATABASE"], min_size=2, max_size=8) as pool:
        found = await asyncio.gather(*(pool.fetchval("select $1::int * 2", n) for n in range(200)))
        check("a pool", found, [2 * n for n in range(200)])
        await pool.execute("drop table ap")


asyncio.run(main())
for failure in failures:
    print("asyncpg:", failure)
sys.exit(bool(failures))
