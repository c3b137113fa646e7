"""What psycopg2 does: values by the simple protocol, COPY, batches, two-phase names that are refused."""
import datetime as dt
import decimal
import io
import sys
import uuid

import psycopg2
import psycopg2.extras

D = decimal.Decimal
failures = []


def check(what, found, wanted):
    if found != wanted or type(found) is not type(wanted):
        failures.append(f"{what}: {found!r} is not {wanted!r}")


psycopg2.extras.register_uuid()
VALUES = [
    ("bool", True), ("int2", -7), ("int8", 2**62), ("float4", 0.25), ("float8", 1e-300), ("numeric", D("1.50")), ("text", "a'b\\c\u4e16"), ("varchar(3)", "abc"),
    ("date", dt.date(9999, 12, 31)), ("time", dt.time(1, 2, 3, 4)), ("timestamp", dt.datetime(2001, 2, 3, 4, 5, 6, 7)),
    ("timestamptz", dt.datetime(2001, 2, 3, tzinfo=dt.timezone.utc)), ("interval", dt.timedelta(days=40, seconds=5)),
    ("uuid", uuid.UUID(int=7)), ("int4[]", [1, 2]), ("text[]", ["a,b", None, ""]), ("date[]", [dt.date(2000, 1, 1)]),
]
connection = psycopg2.connect("")
connection.set_session(autocommit=True)
cursor = connection.cursor()
cursor.execute("set timezone to 'UTC'")
for kind, value in VALUES:
    cursor.execute(f"select %s::{kind}, null::{kind}", (value,))
    check(kind, cursor.fetchone(), (value, None))
cursor.execute("select %s::bytea", (psycopg2.Binary(b"\0\xff'\\"),))
check("bytea", bytes(cursor.fetchone()[0]), b"\0\xff'\\")
cursor.execute("select %s::json", (psycopg2.extras.Json({"a": [1, None, "x"]}),))
check("json", cursor.fetchone()[0], {"a": [1, None, "x"]})
cursor.execute("drop table if exists p2; create table p2 (id serial primary key, a int, b text)")
psycopg2.extras.execute_values(cursor, "insert into p2 (a, b) values %s returning id", [(n, f"row {n}") for n in range(250)], fetch=True)
psycopg2.extras.execute_batch(cursor, "update p2 set b = %s where a = %s", [("changed", n) for n in range(10)])
check("rowcount", cursor.rowcount, 1)
cursor.copy_expert("copy p2 (a, b) from stdin (format csv)", io.StringIO('1000,"x, y"\n1001,\n'))
out = io.StringIO()
cursor.copy_expert("copy (select a, b from p2 where a >= 1000 order by a) to stdout", out)
check("copy", out.getvalue(), "1000\tx, y\n1001\t\\N\n")
cursor.copy_from(io.StringIO("2000\tz\n"), "p2", columns=("a", "b"))
connection.autocommit = False
with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as rows:
    rows.execute("select a, b from p2 where a = any(%s) order by a", ([1, 3],))
    check("dictionaries", [dict(row) for row in rows], [{"a": 1, "b": "changed"}, {"a": 3, "b": "changed"}])
try:
    with connection.cursor() as other:
        other.execute("insert into p2 (id) values (1)")
    failures.append("a duplicate")
except psycopg2.errors.UniqueViolation as error:
    found = (error.diag.schema_name, error.diag.table_name, error.diag.constraint_name, error.pgcode)
    check("its fields", found, ("public", "p2", "p2_pkey", "23505"))
connection.rollback()
check("encoding", connection.encoding, "UTF8")
check("status", connection.get_transaction_status(), psycopg2.extensions.TRANSACTION_STATUS_IDLE)
connection.autocommit = True
connection.cursor().execute("drop table if exists nobody_has_this")
check("a notice", connection.notices[-1], 'NOTICE:  table "nobody_has_this" does not exist, skipping\n')
connection.cursor().execute("drop table p2")
for failure in failures:
    print("psycopg2:", failure)
sys.exit(bool(failures))
