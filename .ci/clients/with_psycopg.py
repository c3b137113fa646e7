"""Every type in both formats, COPY, pipelines, errors, cancel, by psycopg 3."""
import datetime as dt
import decimal
import json
import sys
import threading
import time
import uuid

import psycopg

failures = []


def check(what, is_so, found=None):
    if not is_so:
        failures.append(f"{what}: {found!r}")


D = decimal.Decimal
utc = dt.timezone.utc
VALUES = [
    ("boolean", True), ("boolean", False), ("int2", -32768), ("int4", 2147483647), ("int8", -9223372036854775808),
    ("float4", 1.5), ("float8", -2.5e300), ("float8", float("inf")), ("numeric", D("12345678901234567890.123456789")),
    ("numeric", D("-0.00001")), ("numeric", D("0")), ("numeric(10,2)", D("99999999.99")),
    ("text", "gr\u00fc\u00dfe \u4e16\u754c \U0001f600"), ("text", ""), ("varchar(5)", "abcde"), ("char(3)", "a  "),
    ("bytea", b"\x00\xff\\x"), ("date", dt.date(2000, 2, 29)), ("date", dt.date(1, 1, 1)),
    ("time", dt.time(23, 59, 59, 999999)), ("timestamp", dt.datetime(1999, 12, 31, 23, 59, 59, 123456)),
    ("timestamptz", dt.datetime(2024, 3, 31, 2, 30, tzinfo=utc)), ("interval", dt.timedelta(days=-3, seconds=4, microseconds=5)),
    ("uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")), ("int4[]", [1, None, -3]), ("text[]", ["a,b", 'c"d', "", None]),
    ("numeric[]", [D("1.50"), D("2")]), ("bool[]", [True, False]), ("date[]", [dt.date(2020, 1, 1)]), ("int4[]", []),
]

with psycopg.connect("", autocommit=True) as conn:
    for binary in (False, True):
        cur = conn.cursor(binary=binary)
        for kind, value in VALUES:
            for marker in ("%s", "%b", "%t"):
                try:
                    got = cur.execute(f"select {marker}::{kind}", (value,)).fetchone()[0]
                    check(f"{kind} {marker} binary={binary}", got == value and type(got) is type(value), got)
                except (psycopg.Error, NotImplementedError) as error:
                    if not isinstance(error, psycopg.NotSupportedError) or getattr(error, "sqlstate", None):
                        failures.append(f"{kind} {marker} binary={binary} {value!r}: {error}")
        got = cur.execute("select %s::json", (json.dumps({"a": [1, None]}),)).fetchone()[0]
        check("json", got == {"a": [1, None]}, got)
        for kind in {kind for kind, _ in VALUES}:
            got = cur.execute(f"select %s::{kind}", (None,)).fetchone()[0]
            check(f"null {kind}", got is None, got)
    # A table with a column of each type.
    kinds = [kind for kind, _ in VALUES if not kind.endswith("[]")]
    values = [value for kind, value in VALUES if not kind.endswith("[]")]
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(kinds))
    conn.execute(f"create table psycopg_types (id serial primary key, {columns})")
    marks = ", ".join(["%s"] * len(kinds))
    names = ", ".join(f"c{at}" for at in range(len(kinds)))
    for _ in range(7):
        conn.execute(f"insert into psycopg_types ({names}) values ({marks})", values)
    for binary in (False, True):
        for row in conn.cursor(binary=binary).execute(f"select {names} from psycopg_types"):
            check(f"a table's row, binary={binary}", list(row) == values, row)
    # COPY in each format.
    conn.execute("create table copied (id int primary key, t text, n numeric, b bytea)")
    rows = [(at, f"row\t{at}\n\\" if at % 3 else None, D(at) / 4, bytes([at % 256, 0])) for at in range(5000)]
    with conn.cursor().copy("copy copied from stdin") as copy:
        for row in rows:
            copy.write_row(row)
    with conn.cursor().copy("copy (select * from copied order by id) to stdout (format binary)") as copy:
        copy.set_types(["int4", "text", "numeric", "bytea"])
        check("copy out, binary", list(copy.rows()) == rows)
    conn.execute("delete from copied")
    with conn.cursor().copy("copy copied from stdin (format binary)") as copy:
        copy.set_types(["int4", "text", "numeric", "bytea"])
        for row in rows:
            copy.write_row(row)
    with conn.cursor().copy("copy (select * from copied order by id) to stdout") as copy:
        copy.set_types(["int4", "text", "numeric", "bytea"])
        check("copy out, text", list(copy.rows()) == rows)
    try:
        with conn.cursor().copy("copy copied from stdin") as copy:
            copy.write_row((1, "twice", 1, b""))
        failures.append("a duplicate was copied")
    except psycopg.errors.UniqueViolation:
        pass
    try:
        with conn.cursor().copy("copy copied from stdin") as copy:
            copy.write_row((9999, "x", 1, b""))
            raise KeyError
    except KeyError:
        pass
    check("an aborted copy", conn.execute("select count(*) from copied").fetchone()[0] == 5000)
    # Pipelines, errors in the middle.
    with conn.pipeline():
        cursors = [conn.execute("select %s::int", (at,)) for at in range(100)]
    check("a pipeline", [cursor.fetchone()[0] for cursor in cursors] == list(range(100)))
    try:
        conn.execute("select 1/%s", (0,))
        failures.append("a division by zero")
    except psycopg.errors.DivisionByZero as error:
        check("message", error.diag.message_primary == "division by zero", error.diag.message_primary)
    try:
        conn.execute("select * from nowhere")
    except psycopg.errors.UndefinedTable as error:
        check("position", error.diag.statement_position == "15", error.diag.statement_position)
    # Prepared statements, by name in the protocol and in SQL.
    for turn in range(8):
        got = conn.execute("select %s::int + 1", (turn,), prepare=True).fetchone()
        check("prepared", got == (turn + 1,), got)
    conn.execute("deallocate all")
    conn._prepared.clear()
    conn.prepared_max = 3
    conn.prepare_threshold = 0
    for turn in range(12):
        conn.execute(f"select {turn}::int, %s::text", ("x",))
    conn.prepare_threshold = None
    # An error in a pipeline ends only its part.
    with conn.pipeline() as pipeline:
        conn.execute("insert into copied values (6000)")
        pipeline.sync()
        try:
            conn.execute("insert into copied values (6000)")
            conn.execute("insert into copied values (6001)")
            pipeline.sync()
        except psycopg.errors.UniqueViolation as error:
            diag = error.diag
            found = (diag.schema_name, diag.table_name, diag.constraint_name)
            check("its fields", found == ("public", "copied", "copied_pkey"), found)
        except psycopg.errors.PipelineAborted:
            pass
    found = conn.execute("select array_agg(id order by id) from copied where id >= 6000").fetchone()[0]
    check("the rest", found == [6000], found)
    with conn.cursor() as cursor:
        cursor.executemany("insert into copied (id, t) values (%s, %s) returning id", [(id, "many") for id in range(7000, 7100)], returning=True)
        got = []
        while True:
            got.append(cursor.fetchone()[0])
            if not cursor.nextset():
                break
        check("many", got == list(range(7000, 7100)))
    # What a driver is told.
    said = []
    conn.add_notice_handler(lambda diag: said.append((diag.severity, diag.message_primary)))
    conn.execute("drop table if exists nobody_has_this")
    check("a notice", said == [("NOTICE", 'table "nobody_has_this" does not exist, skipping')], said)
    check("parameters", conn.info.parameter_status("standard_conforming_strings") == "on")
    # Cancel.
    threading.Timer(0.3, conn.cancel).start()
    begun = time.monotonic()
    try:
        conn.execute("select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b").fetchall()
        failures.append("it was not cancelled")
    except psycopg.errors.QueryCanceled:
        check("cancel is quick", time.monotonic() - begun < 5)
    check("after it", conn.execute("select 1").fetchone() == (1,))
    conn.execute("drop table psycopg_types; drop table copied")

for failure in failures:
    print("psycopg:", failure)
sys.exit(bool(failures))
