import java.sql.*;

/** What JDBC's metadata say of a schema, one line for each row; compared with what they say of PostgreSQL's. */
public class Metadata {
    static void print(String what, ResultSet rows) throws SQLException {
        System.out.println("# " + what);
        ResultSetMetaData about = rows.getMetaData();
        while (rows.next()) {
            // The schema of our own views.
            if ("overtake".equals(rows.getString(1))) continue;
            StringBuilder line = new StringBuilder();
            for (int at = 1; at <= about.getColumnCount(); at++) {
                String value = rows.getString(at);
                // How large an index is, is each server's own.
                if (about.getColumnName(at).matches("CARDINALITY|PAGES")) continue;
                if (value != null && !value.isEmpty()) line.append(about.getColumnName(at)).append('=').append(value).append(' ');
            }
            System.out.println(line.toString().stripTrailing());
        }
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE") + "?user=postgres";
        try (Connection connection = DriverManager.getConnection(url)) {
            DatabaseMetaData all = connection.getMetaData();
            System.out.println(all.getDatabaseProductName() + " " + all.getDatabaseMajorVersion());
            print("schemas", all.getSchemas());
            print("kinds of tables", all.getTableTypes());
            for (String schema : new String[] {"public", "sales"}) {
                print("tables of " + schema, all.getTables(null, schema, "%", null));
                print("columns of " + schema, all.getColumns(null, schema, "%", "%"));
            }
            print("tables by name", all.getTables(null, "%", "%order%", new String[] {"TABLE", "VIEW"}));
            for (String table : new String[] {"customer", "product", "order"}) {
                print("primary key of " + table, all.getPrimaryKeys(null, "sales", table));
                print("imported keys of " + table, all.getImportedKeys(null, "sales", table));
                print("exported keys of " + table, all.getExportedKeys(null, "sales", table));
                print("indexes of " + table, all.getIndexInfo(null, "sales", table, false, true));
                print("unique indexes of " + table, all.getIndexInfo(null, "sales", table, true, false));
                print("best row of " + table, all.getBestRowIdentifier(null, "sales", table, DatabaseMetaData.bestRowSession, true));
            }
            print("cross reference", all.getCrossReference(null, "sales", "product", null, "sales", "order"));
            print("privileges of a table", all.getTablePrivileges(null, "sales", "customer"));
            print("privileges of a column", all.getColumnPrivileges(null, "sales", "customer", "name"));
            print("procedures", all.getProcedures(null, "public", "%"));
            print("functions", all.getFunctions(null, "public", "%"));
            print("client information", all.getClientInfoProperties());
            print("version columns", all.getVersionColumns(null, "sales", "customer"));
            System.out.println("# limits\n" + all.getMaxColumnNameLength() + " " + all.getMaxIndexLength() + " " + all.getUserName() + " " + all.getURL().startsWith("jdbc:postgresql:"));
            try (PreparedStatement statement = connection.prepareStatement("select o.id, c.name as who, o.amount * 2, c.credit from sales.\"order\" o join sales.customer c on c.id = o.customer where o.id = ? and c.name = ?")) {
                System.out.println("# a result");
                ResultSetMetaData columns = statement.getMetaData();
                for (int at = 1; at <= columns.getColumnCount(); at++) {
                    System.out.println(String.join(" ", columns.getColumnLabel(at), columns.getColumnName(at), columns.getTableName(at),
                        columns.getSchemaName(at), columns.getColumnTypeName(at), columns.getColumnClassName(at),
                        "" + columns.getPrecision(at), "" + columns.getScale(at), "" + columns.isNullable(at), "" + columns.isAutoIncrement(at)));
                }
                ParameterMetaData parameters = statement.getParameterMetaData();
                for (int at = 1; at <= parameters.getParameterCount(); at++) {
                    System.out.println(parameters.getParameterTypeName(at) + " " + parameters.getParameterClassName(at));
                }
            }
        }
    }
}
