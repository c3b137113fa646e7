"""DuckDB's side of `overtake bench tpch`: a command a line on standard input, an answer a line on standard output, JSON both."""

import json
import os
import sys
import time

import duckdb


def kind(duckdb_type):
    name = str(duckdb_type).upper()
    if name.startswith(("DECIMAL", "BIGINT", "INTEGER", "HUGEINT")):
        return "number"
    return {"DOUBLE": "float", "VARCHAR": "text", "DATE": "date"}[name]


def text(value):
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def load(connection, command):
    table, path = command["table"], command["path"]
    connection.execute(f"create table {table} ({command['columns']})")
    connection.execute(f"copy {table} from '{path}' (format csv, delimiter '|', header false, quote '', escape '')")
    return {"rows_count": connection.execute(f"select count(*) from {table}").fetchone()[0]}


def query(connection, command):
    began = time.perf_counter()
    answer = connection.execute(command["query"])
    seconds = time.perf_counter() - began
    if not command["with_answer"]:
        return {"seconds": seconds}
    names, kinds = [column[0] for column in answer.description], [kind(column[1]) for column in answer.description]
    rows = ["|".join(map(text, row)) for row in answer.fetchall()]
    return {"seconds": seconds, "answer": "\n".join(["|".join(names), "|".join(kinds)] + rows) + "\n"}


def main():
    # The conversation keeps standard output for itself: whatever DuckDB prints goes to standard error.
    conversation = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    connection = duckdb.connect()
    connection.execute("set enable_progress_bar = false")
    connection.execute(f"set threads = {int(sys.argv[1])}")
    print(json.dumps({"version": duckdb.__version__}), file=conversation, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = load(connection, command) if "table" in command else query(connection, command)
        print(json.dumps(answer), file=conversation, flush=True)


main()
