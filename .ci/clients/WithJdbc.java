import java.math.BigDecimal;
import java.io.*;
import java.sql.*;
import java.time.*;
import java.util.*;

/** Every type in both formats (the driver changes to binary and to named statements), batches, cursors, errors, metadata. */
public class WithJdbc {
    static int failures = 0;

    static void check(String what, Object found, Object wanted) {
        boolean same = found instanceof byte[] a && wanted instanceof byte[] b ? Arrays.equals(a, b) : Objects.equals(found, wanted);
        if (!same) {
            failures++;
            System.out.println("jdbc: " + what + ": " + found + " is not " + wanted);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/"+System.getenv("PGDATABASE")+"?user=postgres&prepareThreshold=2";
        for (String more : new String[] {"", "&binaryTransfer=false", "&preferQueryMode=simple", "&binaryTransferEnable=NUMERIC,DATE"}) {
            try (Connection connection = DriverManager.getConnection(url + more)) {
                values(connection, more);
            }
        }
        for (String more : new String[] {"", "&prepareThreshold=-1", "&prepareThreshold=1&preparedStatementCacheQueries=2", "&preferQueryMode=extendedForPrepared"}) {
            try (Connection connection = DriverManager.getConnection(url + more)) {
                statements(connection);
                objects(connection);
                copies(connection);
            }
        }
        System.exit(failures == 0 ? 0 : 1);
    }

    static void values(Connection connection, String how) throws SQLException {
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("boolean", true);
        values.put("int4", Integer.MIN_VALUE);
        values.put("int8", Long.MAX_VALUE);
        values.put("float4", 1.5f);
        values.put("float8", -2.5e300);
        values.put("numeric", new BigDecimal("12345678901234567890.123"));
        values.put("text", "gr\u00fc\u00dfe \u4e16\u754c");
        values.put("varchar(5)", "abcde");
        values.put("bytea", new byte[] {0, -1, 92});
        values.put("date", java.sql.Date.valueOf("2000-02-29"));
        values.put("time", java.sql.Time.valueOf("23:59:58"));
        values.put("timestamp", Timestamp.valueOf("1999-12-31 23:59:59.123456"));
        values.put("uuid", UUID.fromString("12345678-1234-5678-1234-567812345678"));
        for (Map.Entry<String, Object> entry : values.entrySet()) {
            String name = entry.getKey() + how;
            try (PreparedStatement statement = connection.prepareStatement("select ?::" + entry.getKey())) {
                for (int turn = 0; turn < 4; turn++) {
                    statement.setObject(1, entry.getValue());
                    try (ResultSet rows = statement.executeQuery()) {
                        check(name, rows.next(), true);
                        check(name, rows.getObject(1), entry.getValue());
                    }
                }
            } catch (SQLException error) {
                check(name, error, null);
            }
        }
        try (PreparedStatement statement = connection.prepareStatement("select ?::int4[]")) {
            statement.setArray(1, connection.createArrayOf("int4", new Integer[] {1, null, 3}));
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                check("int4[]" + how, Arrays.toString((Object[]) rows.getArray(1).getArray()), "[1, null, 3]");
            }
        }
    }

    static void statements(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("create table jdbc_t (id int primary key, t text)");
        }
        connection.setAutoCommit(false);
        try (PreparedStatement insert = connection.prepareStatement("insert into jdbc_t values (?, ?)")) {
            for (int id = 0; id < 1000; id++) {
                insert.setInt(1, id);
                insert.setString(2, "row " + id);
                insert.addBatch();
            }
            check("a batch", insert.executeBatch().length, 1000);
        }
        connection.commit();
        try (PreparedStatement query = connection.prepareStatement("select id from jdbc_t order by id")) {
            query.setFetchSize(100);
            int count = 0;
            try (ResultSet rows = query.executeQuery()) {
                while (rows.next()) check("a cursor", rows.getInt(1), count++);
            }
            check("rows", count, 1000);
        }
        Savepoint savepoint = connection.setSavepoint();
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("insert into jdbc_t values (1, 'again')");
            check("a duplicate", true, false);
        } catch (SQLException error) {
            check("its state", error.getSQLState(), "23505");
        }
        connection.rollback(savepoint);
        connection.rollback();
        connection.setAutoCommit(true);
        check("the version", connection.getMetaData().getDatabaseMajorVersion(), 15);
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery("select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b");
            check("a timeout", true, false);
        } catch (SQLException error) {
            check("its state", error.getSQLState(), "57014");
        }
        try (Statement statement = connection.createStatement()) {
            statement.execute("drop table jdbc_t");
        }
    }

    /** Each type by its own class, in a table. */
    static void objects(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("drop table if exists jdbc_objects");
            statement.execute("create table jdbc_objects (id bigserial primary key, b boolean, i2 smallint, i4 int, i8 bigint, f4 real, f8 float8, n numeric(20,4), t text,"
                + " v varchar(30), c char(4), by bytea, d date, tm time, ts timestamp, tz timestamptz, u uuid, a int[], s text[], j json, iv interval)");
        }
        UUID uuid = UUID.randomUUID();
        OffsetDateTime moment = OffsetDateTime.of(2024, 3, 31, 1, 30, 0, 123456000, ZoneOffset.UTC);
        Object[] values = {true, (short) -5, 7, 1L << 40, 0.5f, 1e100, new BigDecimal("12345.6789"), "t\u4e16", "v", "c   ", new byte[] {1, 0, -1}, LocalDate.of(2000, 2, 29),
            LocalTime.of(23, 59, 59, 123456000), LocalDateTime.of(1999, 12, 31, 23, 59, 59), moment, uuid};
        String sql = "insert into jdbc_objects (b, i2, i4, i8, f4, f8, n, t, v, c, by, d, tm, ts, tz, u, a, s, j, iv) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::json, ?::interval)";
        long id = 0;
        for (int turn = 0; turn < 6; turn++) {
            try (PreparedStatement insert = connection.prepareStatement(sql, new String[] {"id"})) {
                for (int at = 0; at < values.length; at++) insert.setObject(at + 1, values[at]);
                insert.setArray(17, connection.createArrayOf("int4", new Object[] {1, null, 3}));
                insert.setArray(18, connection.createArrayOf("text", new Object[] {"a,b", "", null, "\"q\""}));
                insert.setString(19, "{\"a\": 1}");
                insert.setString(20, "1 day 02:03:04");
                check("inserted", insert.executeUpdate(), 1);
                try (ResultSet keys = insert.getGeneratedKeys()) {
                    check("a key", keys.next(), true);
                    check("the next key", keys.getLong(1), ++id);
                }
            }
            try (PreparedStatement query = connection.prepareStatement("select b, i2, i4, i8, f4, f8, n, t, v, c, by, d, tm, ts, tz, u, a, s, j, iv from jdbc_objects where id = ?")) {
                query.setLong(1, id);
                try (ResultSet rows = query.executeQuery()) {
                    rows.next();
                    Class<?>[] classes = {Boolean.class, Short.class, Integer.class, Long.class, Float.class, Double.class, BigDecimal.class, String.class, String.class, String.class,
                        byte[].class, LocalDate.class, LocalTime.class, LocalDateTime.class, OffsetDateTime.class, UUID.class};
                    for (int at = 0; at < classes.length; at++) {
                        Object found = classes[at] == byte[].class ? rows.getBytes(at + 1) : rows.getObject(at + 1, classes[at]);
                        check("column " + (at + 1) + " turn " + turn, found, values[at]);
                    }
                    check("an array", Arrays.toString((Object[]) rows.getArray(17).getArray()), "[1, null, 3]");
                    check("strings", Arrays.toString((Object[]) rows.getArray(18).getArray()), "[a,b, , null, \"q\"]");
                    check("json", rows.getString(19), "{\"a\": 1}");
                    check("an interval", rows.getObject(20).toString(), "0 years 0 mons 1 days 2 hours 3 mins 4.0 secs");
                    check("a timestamp", rows.getTimestamp(15).toInstant(), moment.toInstant());
                    check("an integer as text", rows.getString(3), "7");
                }
            }
        }
        try (PreparedStatement insert = connection.prepareStatement("insert into jdbc_objects (i4, t) values (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            for (int at = 0; at < 300; at++) {
                insert.setInt(1, at);
                insert.setNull(2, Types.VARCHAR);
                insert.addBatch();
            }
            check("a batch", Arrays.stream(insert.executeBatch()).sum(), 300);
            int keys = 0;
            try (ResultSet rows = insert.getGeneratedKeys()) {
                while (rows.next()) keys++;
            }
            check("its keys", keys, 300);
        }
        try (PreparedStatement insert = connection.prepareStatement("insert into jdbc_objects (id, i4) values (?, 1)")) {
            for (int at : new int[] {9001, 9002, 1, 9003}) {
                insert.setInt(1, at);
                insert.addBatch();
            }
            insert.executeBatch();
            check("a batch with a duplicate", true, false);
        } catch (BatchUpdateException error) {
            check("its state", error.getSQLState(), "23505");
        }
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
            try (ResultSet rows = statement.executeQuery("select id, t from jdbc_objects where id <= 3 order by id")) {
                rows.last();
                rows.updateString("t", "through the result");
                rows.updateRow();
                rows.absolute(1);
                rows.deleteRow();
            }
            try (ResultSet rows = statement.executeQuery("select (select count(*) from jdbc_objects where id <= 3), t from jdbc_objects where id = 3")) {
                rows.next();
                check("rows that are changed", rows.getInt(1) + rows.getString(2), "2through the result");
            }
        }
        try (Statement statement = connection.createStatement()) {
            // Several results of one text.
            boolean isRows = statement.execute("select 1; update jdbc_objects set i4 = 0 where id = 2; select 2");
            check("the first", isRows, true);
            int results = 1;
            while (statement.getMoreResults() || statement.getUpdateCount() != -1) results++;
            check("results", results, 3);
            statement.execute("drop table jdbc_objects");
        }
    }

    static void copies(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("create table jdbc_copies (id int primary key, t text)");
        }
        org.postgresql.copy.CopyManager copies = connection.unwrap(org.postgresql.PGConnection.class).getCopyAPI();
        StringBuilder data = new StringBuilder();
        for (int id = 0; id < 5000; id++) data.append(id).append(",\"row ").append(id).append("\"\n");
        check("copied in", copies.copyIn("copy jdbc_copies from stdin (format csv)", new StringReader(data.toString())), 5000L);
        StringWriter out = new StringWriter();
        check("copied out", copies.copyOut("copy (select id, t from jdbc_copies order by id) to stdout (format csv, force_quote (t))", out), 5000L);
        check("the same", out.toString(), data.toString());
        try {
            copies.copyIn("copy jdbc_copies from stdin", new StringReader("1\ttwice\n"));
            check("a duplicate", true, false);
        } catch (SQLException error) {
            check("its state", error.getSQLState(), "23505");
        }
        org.postgresql.copy.CopyIn given = copies.copyIn("copy jdbc_copies from stdin");
        given.writeToCopy("9999\tnever\n".getBytes(), 0, 11);
        given.cancelCopy();
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("select count(*) from jdbc_copies")) {
            rows.next();
            check("given up", rows.getInt(1), 5000);
        }
        try (Statement statement = connection.createStatement()) {
            statement.execute("drop table jdbc_copies");
        }
    }
}
