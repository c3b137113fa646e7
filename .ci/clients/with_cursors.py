"""Server-side cursors: those of psycopg 3 and 2 by name, and SQLAlchemy's streams."""
import os
import sys

import psycopg
import psycopg2
import sqlalchemy as sa

failures = []


def check(what, found, wanted):
    if found != wanted:
        failures.append(f"{what}: {found!r} is not {wanted!r}")


SERIES = "select n from generate_series(0, 4999) n order by n"
with psycopg.connect("") as connection:
    check("psycopg", [row[0] for row in connection.cursor(name="c").execute(SERIES)], list(range(5000)))
    with connection.cursor(name="scrolls", scrollable=True) as cursor:
        cursor.execute(SERIES)
        found = [cursor.fetchone()[0], cursor.fetchmany(3)[-1][0]]
        cursor.scroll(2)
        found.append(cursor.fetchone()[0])
        cursor.scroll(0, "absolute")
        found.append(cursor.fetchone()[0])
        check("it scrolls", found, [0, 3, 6, 0])
connection = psycopg2.connect("")
with connection.cursor("by_name", scrollable=False) as cursor:
    cursor.itersize = 40
    cursor.execute(SERIES)
    check("psycopg2", [row[0] for row in cursor], list(range(5000)))
connection.commit()
for driver in ("psycopg", "psycopg2"):
    db = sa.create_engine(f"postgresql+{driver}://postgres@{os.environ['PGHOST']}:{os.environ['PGPORT']}/postgres")
    with db.connect().execution_options(stream_results=True, yield_per=100) as connection:
        with connection.execute(sa.text(SERIES)) as rows:
            check(f"{driver}: streamed", [row[0] for row in rows], list(range(5000)))
for failure in failures:
    print("cursors:", failure)
sys.exit(bool(failures))
