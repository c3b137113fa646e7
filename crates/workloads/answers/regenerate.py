"""Makes sf0.1/q01.txt .. q22.txt: the answers of DuckDB (PyPI: duckdb) over the rows that our loader generates.

    cargo run --release -p workloads --example tpch_csv -- 0.1 DIR
    python3 crates/workloads/answers/regenerate.py DIR

Refuses an answer that a tie at the query's LIMIT would make ambiguous.
"""

import pathlib
import re
import sys

import duckdb

TABLES = {
    "region": "r_regionkey bigint, r_name varchar, r_comment varchar",
    "nation": "n_nationkey bigint, n_name varchar, n_regionkey bigint, n_comment varchar",
    "supplier": "s_suppkey bigint, s_name varchar, s_address varchar, s_nationkey bigint, s_phone varchar,"
    " s_acctbal decimal(15,2), s_comment varchar",
    "customer": "c_custkey bigint, c_name varchar, c_address varchar, c_nationkey bigint, c_phone varchar,"
    " c_acctbal decimal(15,2), c_mktsegment varchar, c_comment varchar",
    "part": "p_partkey bigint, p_name varchar, p_mfgr varchar, p_brand varchar, p_type varchar, p_size integer,"
    " p_container varchar, p_retailprice decimal(15,2), p_comment varchar",
    "partsupp": "ps_partkey bigint, ps_suppkey bigint, ps_availqty integer, ps_supplycost decimal(15,2),"
    " ps_comment varchar",
    "orders": "o_orderkey bigint, o_custkey bigint, o_orderstatus varchar, o_totalprice decimal(15,2),"
    " o_orderdate date, o_orderpriority varchar, o_clerk varchar, o_shippriority integer, o_comment varchar",
    "lineitem": "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber integer,"
    " l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2),"
    " l_returnflag varchar, l_linestatus varchar, l_shipdate date, l_commitdate date, l_receiptdate date,"
    " l_shipinstruct varchar, l_shipmode varchar, l_comment varchar",
}

# Positions of the columns that a query with a LIMIT orders by.
LIMITED = {2: (0, 2, 1, 3), 3: (1, 2), 10: (2,), 18: (4, 3), 21: (1, 0)}


def kind(duckdb_type):
    name = str(duckdb_type).upper()
    if name.startswith(("DECIMAL", "BIGINT", "INTEGER", "HUGEINT")):
        return "number"
    return {"DOUBLE": "float", "VARCHAR": "text", "DATE": "date"}[name]


def text(value):
    if value is None:
        return ""
    written = repr(value) if isinstance(value, float) else str(value)
    assert written and "|" not in written and "\n" not in written, written
    return written


def main(directory):
    here = pathlib.Path(__file__).parent
    connection = duckdb.connect()
    for table, columns in TABLES.items():
        connection.execute(f"create table {table} ({columns})")
        path = pathlib.Path(directory, f"{table}.tbl")
        connection.execute(f"copy {table} from '{path}' (format csv, delimiter '|', header false, quote '', escape '')")
    for number in range(1, 23):
        query = (here / f"../src/tpch/queries/q{number:02}.sql").read_text()
        answer = connection.execute(query)
        names, kinds = [column[0] for column in answer.description], [kind(column[1]) for column in answer.description]
        rows = answer.fetchall()
        if number in LIMITED:
            all_rows = connection.execute(re.sub(r"limit \d+\s*$", "", query)).fetchall()
            order = [tuple(row[position] for position in LIMITED[number]) for row in all_rows]
            assert len(rows) == len(order) or order[len(rows) - 1] != order[len(rows)], f"query {number}: tie at the limit"
        lines = ["|".join(names), "|".join(kinds)] + ["|".join(map(text, row)) for row in rows]
        (here / "sf0.1" / f"q{number:02}.txt").write_text("\n".join(lines) + "\n")
        print(f"query {number}: {len(rows)} rows", kinds)


main(sys.argv[1])
