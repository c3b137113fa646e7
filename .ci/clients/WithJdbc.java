import java.math.BigDecimal;
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
        String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/postgres?user=postgres&prepareThreshold=2";
        for (String more : new String[] {"", "&binaryTransfer=false", "&preferQueryMode=simple", "&binaryTransferEnable=NUMERIC,DATE"}) {
            try (Connection connection = DriverManager.getConnection(url + more)) {
                values(connection, more);
            }
        }
        try (Connection connection = DriverManager.getConnection(url)) {
            statements(connection);
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
}
