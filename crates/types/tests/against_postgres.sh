#!/bin/sh
# Fills in what a running PostgreSQL 15 (initdb --locale=C --encoding=UTF8) says to the expressions of cases.tsv, or of a file
# with one expression per line:
#
#     PGHOST=/tmp PGUSER=postgres crates/sql/tests/against_postgres.sh [EXPRESSIONS] > cases.new
#
# then compare it with cases.tsv, or let it take that file's place.
set -eu
expressions=${1:-$(dirname "$0")/cases.tsv}
cut -f1 "$expressions" | psql -XAtq -v ON_ERROR_STOP=1 -c "SET timezone = 'UTC'" -c "
    CREATE FUNCTION pg_temp.says(expression text) RETURNS text LANGUAGE plpgsql AS \$\$
    DECLARE result text; detail text; hint text;
    BEGIN
        EXECUTE 'SELECT pg_typeof(x)::text || ''|'' || CASE WHEN x IS NULL THEN ''NULL'' ELSE format(''%s'', x) END
            FROM (SELECT ' || expression || ' AS x) AS expression' INTO result;
        RETURN result;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        RETURN 'ERROR ' || SQLSTATE || ' ' || SQLERRM || '|' || detail || '|' || hint;
    END \$\$" -c "CREATE TEMP TABLE cases (line bigint GENERATED ALWAYS AS IDENTITY, expression text)" \
    -c "\\copy cases (expression) FROM pstdin WITH (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')" \
    -c "SELECT expression || E'\\t' || replace(pg_temp.says(expression), E'\\n', '\\n') FROM cases ORDER BY line"
