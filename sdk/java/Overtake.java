import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Field;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.locks.LockSupport;

/**
 * Library for stored procedures in Java 17 and later.
 *
 * <p>A module names its tables and statements in static fields, names its entries, and calls {@link #run}. Values are
 * null, Boolean, Long, Double, BigDecimal, String, byte[], LocalDate, LocalTime, LocalDateTime (UTC), UUID, List (an
 * array), and {@link Literal}, the text form of a value of any other type.
 *
 * <p>The first error of a call ends the invocation: code may clean up, but none of its later calls reaches the database.
 *
 * <p>Java cannot wake a server that sleeps on shared memory, and looks at the memory in turns itself; the channel
 * {@code unix_socket} is the faster one.
 */
final class Overtake {
    static final int AREA_BYTES = 1 << 20;
    private static final int EMIT_BYTES = 64 << 10;
    private static final int FETCH_ROWS = 256;

    private final Set<String> names = new HashSet<>();
    private final StringBuilder manifest = new StringBuilder("overtake 1\n");
    private final List<Entry> entries = new ArrayList<>();
    private int tables, statements;

    /** Table of the manifest. */
    record Table(int number, int columns) {}

    /** SQL statement of the manifest. */
    record Statement(int number) {}

    /** Text form of a value that has no type here, such as an interval. */
    record Literal(String text) {}

    /** Result of a statement; the cursor is null if it has no rows. */
    record Executed(long rows, Cursor cursor) {}

    /** Error that the code raises. */
    static final class SqlError extends RuntimeException {
        final String state, detail, hint;

        SqlError(String state, String message) {
            this(state, message, "", "");
        }

        SqlError(String state, String message, String detail, String hint) {
            super(message);
            this.state = state;
            this.detail = detail;
            this.hint = hint;
        }
    }

    /** End of the invocation: the database knows the error. */
    static final class Aborted extends Error {
        Aborted(String message) {
            super(message);
        }
    }

    /** Row of values. */
    static final class Row {
        final Object[] values;
        /** True if the columns are the arguments of an entry: errors call them so. */
        private final boolean isArguments;

        Row(Object... values) {
            this(false, values);
        }

        private Row(boolean isArguments, Object[] values) {
            this.isArguments = isArguments;
            this.values = values;
        }

        Object get(int column) {
            if (values.length <= column) {
                // Errors count from 1, as PostgreSQL's do.
                String of = isArguments
                    ? "argument " + (column + 1) + " of a routine that has " + values.length
                    : "column " + (column + 1) + " of a row that has " + values.length + " columns";
                throw new SqlError("42703", of);
            }
            return values[column];
        }

        boolean isNull(int column) {
            return get(column) == null;
        }

        <T> T get(int column, Class<T> type) {
            Object value = get(column);
            if (value == null) {
                throw new SqlError("22004", type.getSimpleName() + " is expected instead of NULL");
            }
            if (!type.isInstance(value)) {
                String given = value.getClass().getSimpleName();
                throw new SqlError("42804", type.getSimpleName() + " is expected instead of " + given);
            }
            return type.cast(value);
        }

        long getLong(int column) {
            return get(column, Long.class);
        }

        String getString(int column) {
            return get(column, String.class);
        }

        BigDecimal getDecimal(int column) {
            return get(column) instanceof Long value ? BigDecimal.valueOf(value) : get(column, BigDecimal.class);
        }
    }

    /** Code of a procedure. It returns the row of the OUT parameters, or null. */
    interface Procedure {
        Row run(Call call, Row arguments) throws Exception;
    }

    /** Code of a scalar function. */
    interface Function {
        Object run(Call call, Row arguments) throws Exception;
    }

    /** Code of a set-returning function, which emits its rows. */
    interface SetFunction {
        void run(Call call, Row arguments) throws Exception;
    }

    private interface Entry {
        void run(Call call, List<Row> rows, Rows result) throws Exception;
    }

    /** Names a table, and the columns that rows consist of. */
    Table table(String name, String relation, String... columns) {
        manifest.append(named("table", name)).append(' ').append(relation);
        manifest.append(" (").append(String.join(", ", columns)).append(")\n");
        return new Table(tables++, columns.length);
    }

    /** Names a SQL statement, with parameters $1 and so on. */
    Statement statement(String name, String text) {
        manifest.append(named("statement", name)).append(' ').append(text.replace('\n', ' ')).append('\n');
        return new Statement(statements++);
    }

    /** Checks a name of the manifest: it is one word, and the only one of its kind. */
    private String named(String kind, String name) {
        if (name.isEmpty() || name.chars().anyMatch(Character::isWhitespace)) {
            String told = "\"" + name + "\" cannot be the name of this " + kind + ": a name is one word";
            throw new IllegalArgumentException(told);
        }
        String line = kind + " " + name;
        if (!names.add(line)) {
            throw new IllegalArgumentException("more than one " + kind + " is named \"" + name + "\"");
        }
        return line;
    }

    private void entry(String name, Entry entry) {
        manifest.append(named("entry", name)).append('\n');
        entries.add(entry);
    }

    /** Names a procedure. */
    void procedure(String name, Procedure code) {
        entry(name, (call, rows, result) -> {
            for (Row row : rows) {
                Row returned = code.run(call, row);
                if (returned != null) result.add(returned.values);
            }
        });
    }

    /** Names a scalar function. */
    void function(String name, Function code) {
        entry(name, (call, rows, result) -> {
            for (Row row : rows) result.add(new Object[] {code.run(call, row)});
        });
    }

    /** Names a set-returning function. */
    void setFunction(String name, SetFunction code) {
        entry(name, (call, rows, result) -> {
            for (Row row : rows) code.run(call, row);
        });
    }

    /** Runs the module for the server that has started this process; with --manifest, prints the manifest. */
    void run(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("--manifest")) {
            System.out.print(manifest);
            System.out.flush();
            return;
        }
        try {
            serve(open(System.getenv("OVERTAKE_CHANNEL")));
        } catch (EOFException closed) {
            // The server has closed the channel.
        }
    }

    private static Channel open(String channel) throws Exception {
        String[] parts = channel == null ? new String[0] : channel.split(":");
        if (parts.length == 2 && parts[0].equals("unix_socket")) return new SocketChannel(Integer.parseInt(parts[1]));
        if (parts.length == 2 && parts[0].equals("shared_memory")) return new SharedChannel(Integer.parseInt(parts[1]));
        System.err.println(
            "OVERTAKE_CHANNEL must be shared_memory:FD or unix_socket:FD; Overtake starts this program");
        System.exit(1);
        throw new IllegalStateException();
    }

    // Values

    /** Bytes that are written. */
    private static final class Writer {
        private ByteBuffer data = ByteBuffer.allocate(4096).order(ByteOrder.LITTLE_ENDIAN);

        private ByteBuffer room(int bytes) {
            if (data.position() + bytes > 2 * AREA_BYTES) {
                throw new SqlError("54000", "a message of the routine exceeds 1024 kB");
            }
            if (data.remaining() < bytes) {
                int capacity = Math.max(2 * data.capacity(), data.position() + bytes);
                data = ByteBuffer.allocate(capacity).order(ByteOrder.LITTLE_ENDIAN).put(data.flip());
            }
            return data;
        }

        Writer u8(int value) {
            room(1).put((byte) value);
            return this;
        }

        Writer u16(int value) {
            room(2).putShort((short) value);
            return this;
        }

        Writer u32(int value) {
            room(4).putInt(value);
            return this;
        }

        Writer i64(long value) {
            room(8).putLong(value);
            return this;
        }

        Writer bytes(byte[] value) {
            room(value.length).put(value);
            return this;
        }

        Writer sized(byte[] value) {
            return u32(value.length).bytes(value);
        }

        Writer text(String text) {
            String shortened = text == null ? "" : text.substring(0, Math.min(text.length(), AREA_BYTES / 32));
            return sized(shortened.replace('\0', ' ').getBytes(StandardCharsets.UTF_8));
        }

        Writer values(Object... values) {
            for (Object value : values) value(value);
            return this;
        }

        private void value(Object value) {
            if (value == null) {
                u8(0);
            } else if (value instanceof Boolean truth) {
                u8(truth ? 2 : 1);
            } else if (value instanceof Long || value instanceof Integer || value instanceof Short) {
                u8(3).i64(((Number) value).longValue());
            } else if (value instanceof Double || value instanceof Float) {
                u8(4).i64(Double.doubleToRawLongBits(((Number) value).doubleValue()));
            } else if (value instanceof BigDecimal number) {
                decimal(number);
            } else if (value instanceof String text) {
                u8(6).sized(text.getBytes(StandardCharsets.UTF_8));
            } else if (value instanceof byte[] blob) {
                u8(7).sized(blob);
            } else if (value instanceof LocalDate date) {
                u8(8).u32(Math.toIntExact(date.toEpochDay()));
            } else if (value instanceof LocalTime time) {
                u8(9).i64(time.toNanoOfDay() / 1000);
            } else if (value instanceof LocalDateTime time) {
                long seconds = time.toEpochSecond(ZoneOffset.UTC);
                u8(10).i64(Math.addExact(Math.multiplyExact(seconds, 1_000_000L), time.getNano() / 1000));
            } else if (value instanceof Instant instant) {
                value(LocalDateTime.ofInstant(instant, ZoneOffset.UTC));
            } else if (value instanceof UUID uuid) {
                u8(11);
                room(16).order(ByteOrder.BIG_ENDIAN);
                i64(uuid.getMostSignificantBits()).i64(uuid.getLeastSignificantBits());
                data.order(ByteOrder.LITTLE_ENDIAN);
            } else if (value instanceof Literal literal) {
                u8(12).sized(literal.text().getBytes(StandardCharsets.UTF_8));
            } else if (value instanceof List<?> items) {
                u8(13).u32(items.size());
                for (Object item : items) {
                    value(item);
                }
            } else {
                throw new SqlError("42804", "a value of " + value.getClass() + " is no SQL value");
            }
        }

        private void decimal(BigDecimal number) {
            BigDecimal plain = number.scale() < 0 ? number.setScale(0) : number;
            byte[] digits = plain.unscaledValue().toByteArray();
            if (digits.length > 16 || plain.scale() > 0xFFFF) {
                value(new Literal(plain.toPlainString()));
                return;
            }
            u8(5);
            for (int at = 0; at < 16; at++) {
                int from = digits.length - 1 - at;
                u8(from >= 0 ? digits[from] : plain.signum() < 0 ? -1 : 0);
            }
            u16(plain.scale());
        }

        byte[] take(String what) {
            if (data.position() > AREA_BYTES) throw new SqlError("54000", what + " of the routine exceeds 1024 kB");
            byte[] made = new byte[data.position()];
            data.flip().get(made);
            data.clear();
            return made;
        }

        int length() {
            return data.position();
        }
    }

    /** Cursor over bytes that the database has sent. */
    private static final class Reader {
        private final ByteBuffer data;

        Reader(byte[] data) {
            this.data = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        }

        int u8() {
            return data.get() & 0xFF;
        }

        int u16() {
            return data.getShort() & 0xFFFF;
        }

        int u32() {
            return data.getInt();
        }

        long i64() {
            return data.getLong();
        }

        private byte[] bytes(int length) {
            if (length < 0 || data.remaining() < length) throw new SqlError("39000", "the server broke the protocol");
            byte[] made = new byte[length];
            data.get(made);
            return made;
        }

        private String text() {
            return new String(bytes(u32()), StandardCharsets.UTF_8);
        }

        Object value() {
            int tag = u8();
            switch (tag) {
                case 0: return null;
                case 1: case 2: return tag == 2;
                case 3: return i64();
                case 4: return Double.longBitsToDouble(i64());
                case 5: return decimal();
                case 6: return text();
                case 7: return bytes(u32());
                case 8: return date(u32());
                case 9: return time(i64());
                case 10: return timestamp(i64());
                case 11:
                    ByteBuffer uuid = ByteBuffer.wrap(bytes(16));
                    return new UUID(uuid.getLong(), uuid.getLong());
                case 12: return new Literal(text());
                case 13:
                    int count = u32();
                    List<Object> items = new ArrayList<>();
                    for (int at = 0; at < count; at++) {
                        items.add(value());
                    }
                    return items;
                default: throw new SqlError("39000", "the server broke the protocol");
            }
        }

        private BigDecimal decimal() {
            byte[] digits = bytes(16);
            for (int at = 0; at < 8; at++) {
                byte low = digits[at];
                digits[at] = digits[15 - at];
                digits[15 - at] = low;
            }
            return new BigDecimal(new BigInteger(digits), u16());
        }

        private static Object date(int days) {
            if (days == Integer.MAX_VALUE || days == Integer.MIN_VALUE) {
                return new Literal(days > 0 ? "infinity" : "-infinity");
            }
            return LocalDate.ofEpochDay(days);
        }

        private static Object time(long microseconds) {
            if (microseconds == 86_400_000_000L) return new Literal("24:00:00");
            return LocalTime.ofNanoOfDay(microseconds * 1000);
        }

        private static Object timestamp(long microseconds) {
            if (microseconds == Long.MAX_VALUE || microseconds == Long.MIN_VALUE) {
                return new Literal(microseconds > 0 ? "infinity" : "-infinity");
            }
            long seconds = Math.floorDiv(microseconds, 1_000_000L);
            int nanoseconds = (int) Math.floorMod(microseconds, 1_000_000L) * 1000;
            return LocalDateTime.ofEpochSecond(seconds, nanoseconds, ZoneOffset.UTC);
        }

        Row row(int width) {
            return row(width, false);
        }

        private Row row(int width, boolean isArguments) {
            Object[] values = new Object[width];
            for (int at = 0; at < width; at++) values[at] = value();
            return new Row(isArguments, values);
        }

        List<Row> rows() {
            return rows(false);
        }

        List<Row> arguments() {
            return rows(true);
        }

        private List<Row> rows(boolean areArguments) {
            int count = u32(), width = u16();
            List<Row> rows = new ArrayList<>();
            for (int at = 0; at < count; at++) rows.add(row(width, areArguments));
            return rows;
        }
    }

    /** Rows that are sent together. */
    private static final class Rows {
        private int count, width;
        private final Writer values = new Writer();

        void add(Object[] row) {
            if (row.length == 0) return;
            if (count != 0 && row.length != width) {
                throw new SqlError("42804", "rows of the result have different numbers of columns");
            }
            values.values(row);
            width = row.length;
            count++;
        }

        void take(Writer out) {
            out.u32(count).u16(width).bytes(values.take("a result"));
            count = 0;
        }
    }

    // Calls

    private interface Read<T> {
        T read(Reader reader);
    }

    /** Calls of the database. A subclass says what becomes of each. */
    abstract static class Calls {
        abstract <T> T call(Writer data, Read<T> read);

        abstract Call owner();

        private static Writer begin(int code, boolean flag, Table table) {
            return new Writer().u8(code).u8(flag ? 1 : 0).u16(table.number());
        }

        private Row get(Table table, boolean locks, Object... key) {
            Writer data = begin(1, locks, table).values(key);
            return call(data, reader -> reader.u8() == 1 ? reader.row(table.columns()) : null);
        }

        /** Returns the row with this key, or null. */
        Row get(Table table, Object... key) {
            return get(table, false, key);
        }

        /** Returns the row with this key, or null, after it is locked as SELECT ... FOR UPDATE does. */
        Row getForUpdate(Table table, Object... key) {
            return get(table, true, key);
        }

        /** Inserts a row, or updates the row with its key. */
        void put(Table table, Object... row) {
            call(begin(2, false, table).values(row), null);
        }

        /** Inserts a row. */
        void insert(Table table, Object... row) {
            call(begin(2, true, table).values(row), null);
        }

        /** Deletes the row with this key. Returns true if there was one. */
        Boolean delete(Table table, Object... key) {
            return call(new Writer().u8(3).u16(table.number()).values(key), reader -> reader.u8() == 1);
        }

        private Cursor scan(Table table, boolean descending, Object... prefix) {
            Writer data = begin(4, descending, table).u16(prefix.length).values(prefix);
            return call(data, reader -> new Cursor(owner(), reader.u32()));
        }

        /** Opens a cursor over the rows whose key begins with these values, in the order of the key. */
        Cursor scan(Table table, Object... prefix) {
            return scan(table, false, prefix);
        }

        /** Opens a cursor over the rows whose key begins with these values, the greatest key first. */
        Cursor scanDescending(Table table, Object... prefix) {
            return scan(table, true, prefix);
        }

        /** Executes a statement of the manifest. */
        Executed execute(Statement statement, Object... parameters) {
            Writer data = new Writer().u8(7).u16(statement.number()).values(parameters);
            return call(data, reader -> {
                long rows = reader.i64();
                return new Executed(rows, reader.u8() == 1 ? new Cursor(owner(), reader.u32()) : null);
            });
        }

        /** Executes a statement of the manifest. Its rows come with the answer, as far as they fit it. */
        Cursor query(Statement statement, Object... parameters) {
            Writer data = new Writer().u8(13).u16(statement.number()).values(parameters);
            return call(data, reader -> {
                reader.i64();
                List<Row> rows = reader.rows();
                Cursor cursor = reader.u8() == 1 ? new Cursor(owner()) : new Cursor(owner(), reader.u32());
                cursor.rows.addAll(rows);
                return cursor;
            });
        }

        /**
         * Commits the transaction, and begins another. Cursors are closed. Only in a procedure that CALL runs outside a
         * transaction block.
         */
        void commit() {
            call(new Writer().u8(11), null);
        }

        /** Rolls the transaction back to the last commit, and begins another. As commit. */
        void rollback() {
            call(new Writer().u8(12), null);
        }

        /** Sends a notice: debug, log, info, notice or warning. */
        void notice(String level, String message) {
            int number = List.of("debug", "log", "info", "notice", "warning").indexOf(level);
            if (number < 0) throw new SqlError("22023", "\"" + level + "\" is no level of a notice");
            call(new Writer().u8(8).u8(number).text(message), null);
        }
    }

    /** Invocation of an entry: the way to the database. */
    static final class Call extends Calls {
        private final Channel channel;
        private final Rows emitted = new Rows();
        /** Reason why the invocation must end, once there is one. */
        private String end;

        private Call(Channel channel) {
            this.channel = channel;
        }

        /** Fails if the invocation must end: code that goes on after an error makes no more calls. */
        private void check() {
            if (end != null) throw new Aborted(end);
        }

        private Reader exchange(Writer data) {
            check();
            byte[] request = data.take("a batch of calls");
            try {
                channel.send(CALL, request);
                Message message = channel.receive();
                if (message.kind() == ANSWER) return new Reader(message.data());
                end = new String(message.data(), StandardCharsets.UTF_8);
            } catch (IOException lost) {
                end = "the channel is lost: " + lost.getMessage();
            }
            throw new Aborted(end);
        }

        @Override
        <T> T call(Writer data, Read<T> read) {
            Reader reader = exchange(data);
            return read == null ? null : read.read(reader);
        }

        @Override
        Call owner() {
            return this;
        }

        /** Begins a batch of calls, which the database makes at once. */
        Batch batch() {
            return new Batch(this);
        }

        /** Adds a row to the result of a set-returning function. */
        void emit(Object... row) {
            emitted.add(row);
            if (emitted.values.length() >= EMIT_BYTES) flush();
        }

        private void flush() {
            if (emitted.count == 0) return;
            Writer data = new Writer().u8(10);
            emitted.take(data);
            exchange(data);
        }

        private void raise(SqlError error) {
            String state = error.state.length() == 5 ? error.state : "P0001";
            Writer data = new Writer().u8(9).bytes(state.getBytes(StandardCharsets.US_ASCII));
            exchange(data.text(error.getMessage()).text(error.detail).text(error.hint));
        }
    }

    /**
     * Calls that the database makes at once. The methods return null; {@link #run} returns their answers, in order: a
     * Row or null, Boolean, Cursor (of scans and queries), Executed, and null for put, insert and notice.
     */
    static final class Batch extends Calls {
        private final Call call;
        private final Writer data = new Writer();
        private final List<Read<?>> reads = new ArrayList<>();

        private Batch(Call call) {
            this.call = call;
        }

        @Override
        <T> T call(Writer one, Read<T> read) {
            data.bytes(one.take("a call"));
            reads.add(read);
            return null;
        }

        @Override
        Call owner() {
            return call;
        }

        /** Makes the calls. */
        Object[] run() {
            if (reads.isEmpty()) return new Object[0];
            Reader reader = call.exchange(data);
            Object[] answers = new Object[reads.size()];
            for (int at = 0; at < answers.length; at++) {
                answers[at] = reads.get(at) == null ? null : reads.get(at).read(reader);
            }
            reads.clear();
            return answers;
        }
    }

    /** Cursor over rows, which are fetched in packets. Other calls may be made meanwhile. */
    static final class Cursor implements Iterator<Row>, Iterable<Row> {
        private final Call call;
        private final int number;
        private final ArrayDeque<Row> rows = new ArrayDeque<>();
        private boolean isOver;

        private Cursor(Call call, int number) {
            this.call = call;
            this.number = number;
        }

        /** Makes a cursor that has no more rows than it is given. */
        private Cursor(Call call) {
            this(call, 0);
            isOver = true;
        }

        @Override
        public boolean hasNext() {
            while (rows.isEmpty() && !isOver) {
                Reader reader = call.exchange(new Writer().u8(5).u32(number).u32(FETCH_ROWS));
                rows.addAll(reader.rows());
                isOver = reader.u8() == 1;
            }
            return !rows.isEmpty();
        }

        @Override
        public Row next() {
            if (!hasNext()) throw new NoSuchElementException();
            return rows.remove();
        }

        @Override
        public Iterator<Row> iterator() {
            return this;
        }

        /** Closes the cursor. The end of the invocation does so, too. */
        void close() {
            rows.clear();
            if (isOver) return;
            isOver = true;
            call.exchange(new Writer().u8(6).u32(number));
        }
    }

    // Channels

    private static final int INVOKE = 1, ANSWER = 2, READY = 4, CALL = 5, RETURN = 6, FAIL = 7;

    private record Message(int kind, int entry, byte[] data) {}

    private interface Channel {
        void send(int kind, byte[] data) throws IOException;

        Message receive() throws IOException;
    }

    /** Socket that the server has opened. */
    private static final class SocketChannel implements Channel {
        private final InputStream input;
        private final OutputStream output;

        SocketChannel(int number) throws ReflectiveOperationException {
            // Java opens no inherited descriptor by itself. The first line of the program allows this access.
            FileDescriptor descriptor = new FileDescriptor();
            Field field = FileDescriptor.class.getDeclaredField("fd");
            field.setAccessible(true);
            field.setInt(descriptor, number);
            input = new FileInputStream(descriptor);
            output = new FileOutputStream(descriptor);
        }

        @Override
        public void send(int kind, byte[] data) throws IOException {
            ByteBuffer message = ByteBuffer.allocate(12 + data.length).order(ByteOrder.LITTLE_ENDIAN);
            output.write(message.putInt(kind).putInt(0).putInt(data.length).put(data).array());
        }

        private ByteBuffer read(int length) throws IOException {
            byte[] data = new byte[length];
            // Not readNBytes: it asks for the position in the file, which a socket has not.
            for (int at = 0; at < length; ) {
                int count = input.read(data, at, length - at);
                if (count < 0) throw new EOFException();
                at += count;
            }
            return ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        }

        @Override
        public Message receive() throws IOException {
            ByteBuffer head = read(12);
            return new Message(head.getInt(), head.getInt(), read(head.getInt()).array());
        }
    }

    /** Memory that the server has mapped. Only the side that has the turn touches the message and the area. */
    private static final class SharedChannel implements Channel {
        private static final int TURN = 64, MESSAGE = 80, CONTENTS = 96, SPINS = 2000;
        /**
         * First and longest pause between two looks, in nanoseconds. Each is a quarter longer than the one before, so a
         * message waits for little of the time that has passed before it, and an idle worker hardly runs.
         */
        private static final long PAUSE_MIN = 50_000, PAUSE_MAX = 5_000_000;
        private static final VarHandle WORDS =
            MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
        private final ByteBuffer memory;

        SharedChannel(int number) throws IOException {
            try (RandomAccessFile file = new RandomAccessFile("/proc/self/fd/" + number, "rw")) {
                memory = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 4096 + AREA_BYTES);
            }
            memory.order(ByteOrder.LITTLE_ENDIAN);
            if (memory.getInt(0) != 2) throw new IOException("the shared memory has another layout than 2, that of this library");
        }

        @Override
        public void send(int kind, byte[] data) {
            memory.put(CONTENTS, data);
            memory.putInt(MESSAGE, kind).putInt(MESSAGE + 4, 0).putInt(MESSAGE + 8, data.length);
            WORDS.setVolatile(memory, TURN, 0);
        }

        @Override
        public Message receive() {
            int spins = 0;
            long pause = PAUSE_MIN;
            while ((int) WORDS.getVolatile(memory, TURN) != 1) {
                if (spins < SPINS) {
                    spins++;
                    Thread.onSpinWait();
                } else {
                    LockSupport.parkNanos(pause);
                    pause = Math.min(pause + pause / 4, PAUSE_MAX);
                }
            }
            byte[] data = new byte[memory.getInt(MESSAGE + 8)];
            memory.get(CONTENTS, data);
            return new Message(memory.getInt(MESSAGE), memory.getInt(MESSAGE + 4), data);
        }
    }

    private void serve(Channel channel) throws IOException {
        channel.send(READY, new byte[0]);
        while (true) {
            Message message = channel.receive();
            if (message.kind() != INVOKE) throw new IOException("message " + message.kind() + " is no invocation");
            byte[] answer;
            int kind = FAIL;
            Call call = new Call(channel);
            try {
                try {
                    answer = invoke(call, message);
                    kind = RETURN;
                } catch (SqlError error) {
                    call.raise(error);
                    answer = new byte[0];
                }
            } catch (Throwable failure) {
                answer = failure.toString().getBytes(StandardCharsets.UTF_8);
                if (answer.length > AREA_BYTES) answer = new byte[0];
            }
            channel.send(kind, answer);
        }
    }

    private byte[] invoke(Call call, Message message) throws Exception {
        if (message.entry() < 0 || entries.size() <= message.entry()) {
            throw new SqlError("39000", "the module has no entry " + message.entry());
        }
        Rows result = new Rows();
        entries.get(message.entry()).run(call, new Reader(message.data()).arguments(), result);
        call.check();
        call.flush();
        Writer out = new Writer();
        result.take(out);
        return out.take("a result");
    }
}
