"""Makes ch/q01.txt .. q22.txt: the answers of DuckDB (PyPI: duckdb) over the rows of CH-benCHmark's known database.

    cargo run --release -p workloads --example ch_csv -- DIR
    python3 crates/workloads/answers/regenerate_ch.py DIR
"""

import pathlib
import sys

import duckdb

KINDS = {"DOUBLE": "float", "VARCHAR": "text", "TIMESTAMP": "timestamp"}


def kind(duckdb_type):
    name = str(duckdb_type).upper()
    return "number" if name.startswith(("DECIMAL", "BIGINT", "INTEGER", "HUGEINT")) else KINDS[name]


def text(value):
    if value is None:
        return ""
    written = repr(value) if isinstance(value, float) else str(value)
    assert written and "|" not in written and "\n" not in written, written
    return written


def main(directory):
    here = pathlib.Path(__file__).parent
    connection = duckdb.connect()
    connection.execute("create schema tpcc; create schema ch;")
    connection.execute(pathlib.Path(directory, "schema.sql").read_text())
    for path in sorted(pathlib.Path(directory).glob("*.tbl")):
        if path.stat().st_size == 0:
            continue
        connection.execute(f"copy {path.stem} from '{path}' (format csv, delimiter '|', header false, quote '', escape '')")
    for number in range(1, 23):
        query = (here / f"../src/ch/queries/q{number:02}.sql").read_text()
        answer = connection.execute(query)
        names, kinds = [column[0] for column in answer.description], [kind(column[1]) for column in answer.description]
        rows = answer.fetchall()
        lines = ["|".join(names), "|".join(kinds)] + ["|".join(map(text, row)) for row in rows]
        (here / "ch" / f"q{number:02}.txt").write_text("\n".join(lines) + "\n")
        print(f"query {number}: {len(rows)} rows", kinds)


main(sys.argv[1])
