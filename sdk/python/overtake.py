"""Library for stored procedures in Python, version 3.9 and later.

A module says which tables and statements it uses and which functions SQL can call, and ends with `main()`:

    import overtake

    ACCOUNT = overtake.table("account", "account", ["id", "balance"])

    @overtake.procedure
    def withdraw(call, account, amount):
        row = call.get(ACCOUNT, account, lock=True)
        if row is None or row[1] < amount:
            overtake.raise_error("P0001", "the balance is too low")
        call.put(ACCOUNT, account, row[1] - amount)

    overtake.main()

Values are None, bool, int, float, decimal.Decimal, str, bytes, datetime.date, datetime.time, datetime.datetime (UTC),
uuid.UUID, list for an array, and Literal, the text form of a value of any other type.

The first error of a call ends the invocation: code may clean up, but none of its later calls reaches the database.
"""

import collections
import ctypes
import datetime
import decimal
import mmap
import os
import socket
import struct
import sys
import threading
import traceback
import uuid

AREA_BYTES = 1 << 20
_EMIT_BYTES = 64 << 10
_FETCH_ROWS = 256

Table = collections.namedtuple("Table", ["number", "columns"])
Statement = collections.namedtuple("Statement", ["number"])
Executed = collections.namedtuple("Executed", ["rows", "cursor"])

_lines = ["overtake 1"]
_names = set()
_tables = []
_statements = []
_entries = []


class Literal(str):
    """Text form of a value that has no type here, such as an interval."""


class Error(Exception):
    """Error that the code raises."""

    def __init__(self, state, message, detail="", hint=""):
        super().__init__(message)
        self.state, self.message, self.detail, self.hint = state, message, detail, hint


class Aborted(BaseException):
    """End of the invocation: the database knows the error."""


def raise_error(state, message, detail="", hint=""):
    """Raises an error with this SQLSTATE, as RAISE does."""
    raise Error(state, message, detail, hint)


def _named(kind, name):
    """Checks a name of the manifest: it is one word, and the only one of its kind."""
    if not isinstance(name, str) or name.split() != [name]:
        raise ValueError("%r cannot be the name of this %s: a name is one word" % (name, kind))
    line = "%s %s" % (kind, name)
    if line in _names:
        raise ValueError("more than one %s is named %r" % (kind, name))
    _names.add(line)
    return line


def table(name, relation, columns):
    """Names a table, and the columns that rows consist of."""
    _lines.append("%s %s (%s)" % (_named("table", name), relation, ", ".join(columns)))
    _tables.append(name)
    return Table(len(_tables) - 1, len(columns))


def statement(name, text):
    """Names a SQL statement, with parameters $1 and so on."""
    _lines.append("%s %s" % (_named("statement", name), " ".join(text.split("\n"))))
    _statements.append(name)
    return Statement(len(_statements) - 1)


def _entry(name, run):
    _lines.append(_named("entry", name))
    _entries.append(run)


def procedure(code):
    """Decorator of a procedure: code(call, *arguments). It returns None, or its OUT parameters: a value or a tuple."""

    def run(call, rows, result):
        for row in rows:
            returned = code(call, *row)
            if returned is not None:
                result.add(_row(returned))

    _entry(code.__name__, run)
    return code


def function(code):
    """Decorator of a scalar function: code(call, *arguments) returns a value, of which None is NULL."""

    def run(call, rows, result):
        for row in rows:
            result.add((code(call, *row),))

    _entry(code.__name__, run)
    return code


def batch_function(code):
    """Decorator of a scalar function that gets many rows at once: code(call, rows) returns as many values."""

    def run(call, rows, result):
        for value in code(call, rows):
            result.add((value,))

    _entry(code.__name__, run)
    return code


def set_function(code):
    """Decorator of a set-returning function: code(call, *arguments) returns or yields rows: values or tuples."""

    def run(call, rows, result):
        for row in rows:
            # Code that emits its rows itself returns none.
            for made in code(call, *row) or ():
                call.emit(*_row(made))

    _entry(code.__name__, run)
    return code


def _row(value):
    # A list is an array, so it is one value.
    return value if isinstance(value, tuple) else (value,)


# Values

_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_TIME = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_NUMBERS = decimal.Context(prec=80)


def _encode_bytes(tag, value):
    return struct.pack("<BI", tag, len(value)) + value


def _encode_decimal(value):
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return _encode(Literal({"n": "NaN", "N": "NaN"}.get(exponent, "-Infinity" if sign else "Infinity")))
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    unscaled = -unscaled if sign else unscaled
    scale = max(-exponent, 0)
    if -(1 << 127) <= unscaled < 1 << 127 and scale < 1 << 16:
        return b"\x05" + unscaled.to_bytes(16, "little", signed=True) + struct.pack("<H", scale)
    return _encode(Literal(format(value, "f")))


def _encode_time(value):
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return struct.pack("<Bq", 9, seconds * 1_000_000 + value.microsecond)


def _encode_timestamp(value):
    if value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return struct.pack("<Bq", 10, (value - _EPOCH_TIME) // _MICROSECOND)


def _encode(value):
    # A bool is an int, a datetime is a date, and a Literal is a str: the narrower type comes first.
    if value is None:
        return b"\x00"
    if isinstance(value, bool):
        return b"\x02" if value else b"\x01"
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return struct.pack("<Bq", 3, value)
        return _encode_decimal(decimal.Decimal(value))
    if isinstance(value, float):
        return struct.pack("<Bd", 4, value)
    if isinstance(value, decimal.Decimal):
        return _encode_decimal(value)
    if isinstance(value, Literal):
        return _encode_bytes(12, value.encode())
    if isinstance(value, str):
        return _encode_bytes(6, value.encode())
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _encode_bytes(7, bytes(value))
    if isinstance(value, datetime.datetime):
        return _encode_timestamp(value)
    if isinstance(value, datetime.date):
        return struct.pack("<Bi", 8, (value - _EPOCH).days)
    if isinstance(value, datetime.time):
        return _encode_time(value)
    if isinstance(value, uuid.UUID):
        return b"\x0b" + value.bytes
    if isinstance(value, (list, tuple)):
        return struct.pack("<BI", 13, len(value)) + b"".join(map(_encode, value))
    raise Error("42804", "a value of type %s is no SQL value" % type(value).__name__)


def _encode_rows(rows):
    return b"".join(_encode(value) for row in rows for value in row)


def _civil(days):
    """Returns a day of any year as year-month-day, and the era, in the texts of SQL."""
    # The calendar repeats after 400 years, which are 146,097 days.
    cycles, rest = divmod(days, 146_097)
    day = _EPOCH + datetime.timedelta(days=rest)
    year = day.year + 400 * cycles
    # The year before 1 is 1 BC.
    shown, era = (year, "") if year > 0 else (1 - year, " BC")
    return "%04d-%02d-%02d" % (shown, day.month, day.day), era


class _Reader:
    """Cursor over bytes that the database has sent."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def read(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values[0]

    def bytes(self, length):
        self.at += length
        return self.data[self.at - length : self.at]

    def value(self):
        tag = self.read("<B")
        if tag == 0:
            return None
        if tag in (1, 2):
            return tag == 2
        if tag == 3:
            return self.read("<q")
        if tag == 4:
            return self.read("<d")
        if tag == 5:
            unscaled = int.from_bytes(self.bytes(16), "little", signed=True)
            return decimal.Decimal(unscaled).scaleb(-self.read("<H"), _NUMBERS)
        if tag == 6:
            return self.bytes(self.read("<I")).decode()
        if tag == 7:
            return self.bytes(self.read("<I"))
        if tag == 8:
            return self.date(self.read("<i"))
        if tag == 9:
            return self.time(self.read("<q"))
        if tag == 10:
            return self.timestamp(self.read("<q"))
        if tag == 11:
            return uuid.UUID(bytes=self.bytes(16))
        if tag == 12:
            return Literal(self.bytes(self.read("<I")).decode())
        if tag == 13:
            return [self.value() for _ in range(self.read("<I"))]
        raise Error("39000", "the server broke the protocol")

    @staticmethod
    def date(days):
        """A date beyond those of Python is a Literal: infinity, or a text that SQL reads. So is a timestamp."""
        if days in (-(1 << 31), (1 << 31) - 1):
            return Literal("infinity" if days > 0 else "-infinity")
        try:
            return _EPOCH + datetime.timedelta(days=days)
        except OverflowError:
            return Literal("%s%s" % _civil(days))

    @staticmethod
    def time(microseconds):
        if microseconds == 86_400_000_000:
            return Literal("24:00:00")
        return (_EPOCH_TIME + datetime.timedelta(microseconds=microseconds)).time()

    @staticmethod
    def timestamp(microseconds):
        if microseconds in (-(1 << 63), (1 << 63) - 1):
            return Literal("infinity" if microseconds > 0 else "-infinity")
        try:
            return _EPOCH_TIME + datetime.timedelta(microseconds=microseconds)
        except OverflowError:
            days, rest = divmod(microseconds, 86_400_000_000)
            time = (_EPOCH_TIME + datetime.timedelta(microseconds=rest)).time()
            date, era = _civil(days)
            return Literal("%s %s%s" % (date, time, era))

    def row(self, width):
        return tuple(self.value() for _ in range(width))

    def rows(self):
        count, width = self.read("<I"), self.read("<H")
        return [self.row(width) for _ in range(count)]


class _Result:
    """Rows that are sent together."""

    def __init__(self):
        self.count, self.width, self.parts, self.bytes = 0, 0, [], 0

    def add(self, row):
        self.add_encoded(len(row), _encode_rows([row]))

    def add_encoded(self, width, part):
        if not width:
            return
        if self.count and width != self.width:
            raise Error("42804", "a row of %d columns after one of %d" % (width, self.width))
        self.parts.append(part)
        self.count, self.width, self.bytes = self.count + 1, width, self.bytes + len(part)

    def take(self):
        made = struct.pack("<IH", self.count, self.width) + b"".join(self.parts)
        self.__init__()
        if len(made) > AREA_BYTES:
            raise Error("54000", "a result of the routine exceeds %d kB" % (AREA_BYTES >> 10))
        return made


# Calls


class Cursor:
    """Cursor over rows: an iterator, which fetches in packets. Other calls may be made meanwhile."""

    def __init__(self, call, number, rows=(), over=False):
        self._call, self._number, self._rows, self._over = call, number, collections.deque(rows), over

    def __iter__(self):
        return self

    def __next__(self):
        while not self._rows and not self._over:
            reader = self._call._exchange(struct.pack("<BII", 5, self._number, _FETCH_ROWS))
            self._rows.extend(reader.rows())
            self._over = reader.read("<B") == 1
        if not self._rows:
            raise StopIteration
        return self._rows.popleft()

    def close(self):
        """Closes the cursor. The end of the invocation does so, too."""
        self._rows.clear()
        if not self._over:
            self._over = True
            self._call._exchange(struct.pack("<BI", 6, self._number))


class _Calls:
    """Calls of the database. A subclass says what becomes of each."""

    def get(self, table, *key, lock=False):
        """Returns the row with this key as a tuple, or None; with `lock`, as SELECT ... FOR UPDATE."""
        data = struct.pack("<BBH", 1, lock, table.number) + _encode_rows([key])
        return self._call(data, lambda reader: reader.row(table.columns) if reader.read("<B") else None)

    def put(self, table, *row):
        """Inserts a row, or updates the row with its key."""
        return self._call(struct.pack("<BBH", 2, 0, table.number) + _encode_rows([row]), None)

    def insert(self, table, *row):
        """Inserts a row."""
        return self._call(struct.pack("<BBH", 2, 1, table.number) + _encode_rows([row]), None)

    def delete(self, table, *key):
        """Deletes the row with this key. Returns True if there was one."""
        data = struct.pack("<BH", 3, table.number) + _encode_rows([key])
        return self._call(data, lambda reader: reader.read("<B") == 1)

    def scan(self, table, *prefix, descending=False):
        """Returns a cursor over the rows whose key begins with these values, in the order of the key."""
        data = struct.pack("<BBHH", 4, descending, table.number, len(prefix)) + _encode_rows([prefix])
        return self._call(data, lambda reader: self._cursor(reader.read("<I")))

    def execute(self, statement, *parameters):
        """Executes a statement of the manifest. Returns the number of rows, and a cursor or None."""
        data = struct.pack("<BH", 7, statement.number) + _encode_rows([parameters])

        def read(reader):
            rows = reader.read("<Q")
            return Executed(rows, self._cursor(reader.read("<I")) if reader.read("<B") else None)

        return self._call(data, read)

    def _query(self, statement, parameters, rows_of):
        data = struct.pack("<BH", 13, statement.number) + _encode_rows([parameters])

        def read(reader):
            reader.read("<Q")
            rows, over = reader.rows(), reader.read("<B") == 1
            return rows_of(self._cursor(None if over else reader.read("<I"), rows, over))

        return self._call(data, read)

    def commit(self):
        """Commits the transaction, and begins another. Cursors are closed. Only in a procedure that CALL runs outside a
        transaction block."""
        return self._call(struct.pack("<B", 11), None)

    def rollback(self):
        """Rolls the transaction back to the last commit, and begins another. As commit."""
        return self._call(struct.pack("<B", 12), None)

    def notice(self, message, level="notice"):
        """Sends a notice: debug, log, info, notice or warning."""
        number = ["debug", "log", "info", "notice", "warning"].index(level)
        return self._call(struct.pack("<BB", 8, number) + _text(message), None)


def _text(text):
    # The database takes no zero bytes, and a message has to fit.
    data = text.replace("\0", " ").encode()[: AREA_BYTES // 8].decode(errors="ignore").encode()
    return struct.pack("<I", len(data)) + data


class Call(_Calls):
    """Invocation of an entry: the way to the database."""

    def __init__(self, link):
        self._link, self._emitted = link, _Result()

    def _exchange(self, data):
        if len(data) > AREA_BYTES:
            raise Error("54000", "a batch of calls of the routine exceeds %d kB" % (AREA_BYTES >> 10))
        return _Reader(self._link.call(data))

    def _call(self, data, read):
        reader = self._exchange(data)
        return read(reader) if read else None

    def _cursor(self, number, rows=(), over=False):
        return Cursor(self, number, rows, over)

    def query(self, statement, *parameters):
        """Executes a statement of the manifest, and returns all rows of its result, which come with the answer."""
        return self._query(statement, parameters, list)

    def batch(self):
        """Begins a batch of calls, which the database makes at once."""
        return Batch(self)

    def emit(self, *row):
        """Adds a row to the result of a set-returning function."""
        part = _encode_rows([row])
        if self._emitted.bytes + len(part) > _EMIT_BYTES:
            self._flush()
        self._emitted.add_encoded(len(row), part)

    def _flush(self):
        if self._emitted.count:
            self._exchange(b"\x0a" + self._emitted.take())


class Batch(_Calls):
    """Calls that the database makes at once. `run` returns the list of their answers, in order."""

    def __init__(self, call):
        self._owner, self._parts, self._reads = call, [], []

    def _call(self, data, read):
        self._parts.append(data)
        self._reads.append(read)

    def _cursor(self, number, rows=(), over=False):
        return Cursor(self._owner, number, rows, over)

    def query(self, statement, *parameters):
        """Executes a statement of the manifest. Its answer is an iterator over all rows, which come with the answer as
        far as they fit it."""
        return self._query(statement, parameters, lambda cursor: cursor)

    def run(self):
        """Makes the calls."""
        if not self._parts:
            return []
        reader = self._owner._exchange(b"".join(self._parts))
        return [read(reader) if read else None for read in self._reads]


# Channels

_INVOKE, _ANSWER, _ABORT, _READY, _CALL, _RETURN, _FAIL = range(1, 8)


class _Socket:
    """Socket that the server has opened."""

    def __init__(self, descriptor):
        self.socket = socket.socket(fileno=descriptor)

    def send(self, kind, data):
        self.socket.sendall(struct.pack("<III", kind, 0, len(data)) + data)

    def _bytes(self, length):
        parts = []
        while length:
            part = self.socket.recv(min(length, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def receive(self):
        kind, entry, length = struct.unpack("<III", self._bytes(12))
        return kind, entry, self._bytes(length)


class _Shared:
    """Memory that the server has mapped. Only the side that has the turn touches the message and the area."""

    BYTES, TURN, HOST_SLEEPS, WORKER_SLEEPS, MESSAGE, CONTENTS = 4096 + AREA_BYTES, 16, 17, 18, 20, 96
    SYSCALL = {"x86_64": 202, "aarch64": 98, "riscv64": 98}

    def __init__(self, descriptor):
        self.map = mmap.mmap(descriptor, self.BYTES)
        self.words = memoryview(self.map).cast("I")
        self.syscall = ctypes.CDLL(None, use_errno=True).syscall
        self.futex = self.SYSCALL[os.uname().machine]
        self.turn = ctypes.addressof(ctypes.c_uint32.from_buffer(self.map, 4 * self.TURN))
        self.fence = threading.Lock()
        if self.words[0] != 2:
            raise OSError("the shared memory has layout %d instead of 2" % self.words[0])

    def _order(self):
        # The only full barrier that Python has: a store before it is seen before a load behind it.
        with self.fence:
            pass

    def send(self, kind, data):
        self.map[self.CONTENTS : self.CONTENTS + len(data)] = data
        self.words[self.MESSAGE] = kind
        self.words[self.MESSAGE + 1] = 0
        self.words[self.MESSAGE + 2] = len(data)
        self._order()
        self.words[self.TURN] = 0
        self._order()
        if self.words[self.HOST_SLEEPS]:
            self.syscall(self.futex, ctypes.c_void_p(self.turn), 1, 1, None)

    def _wait(self):
        for _ in range(200):
            if self.words[self.TURN] == 1:
                return
        self.words[self.WORKER_SLEEPS] = 1
        self._order()
        while self.words[self.TURN] != 1:
            self.syscall(self.futex, ctypes.c_void_p(self.turn), 0, 0, None)
        self.words[self.WORKER_SLEEPS] = 0

    def receive(self):
        self._wait()
        self._order()
        kind, entry, length = self.words[self.MESSAGE : self.MESSAGE + 3]
        return kind, entry, bytes(self.map[self.CONTENTS : self.CONTENTS + length])


class _Link:
    """The server at the other end of a channel."""

    def __init__(self, channel):
        self.channel, self.end = channel, None

    def call(self, data):
        if self.end is None:
            self.channel.send(_CALL, data)
            kind, _, answer = self.channel.receive()
            if kind == _ANSWER:
                return answer
            # Code that goes on after an error makes no more calls.
            self.end = answer.decode(errors="replace")
        raise Aborted(self.end)

    def tell(self, error):
        fields = [error.message, error.detail, error.hint]
        state = error.state.encode()
        state = state if len(state) == 5 else b"P0001"
        self.call(b"\x09" + state + b"".join(map(_text, fields)))


def _invoke(link, entry, data):
    if entry >= len(_entries):
        raise Error("39000", "the module has no entry %d" % entry)
    call, result = Call(link), _Result()
    _entries[entry](call, _Reader(data).rows(), result)
    if not result.count:
        # Emitted rows that are not sent yet need no call of their own.
        return call._emitted.take()
    call._flush()
    return result.take()


def _answer(link, entry, data):
    """Runs an entry. Returns the message that ends the invocation."""
    link.end = None
    try:
        try:
            result = _invoke(link, entry, data)
            return (_RETURN, result) if link.end is None else (_FAIL, b"")
        except Error as error:
            link.tell(error)
            return _FAIL, error.message.encode()
    except Aborted as error:
        return _FAIL, str(error).encode()[: AREA_BYTES // 8]
    except EOFError:
        raise
    except BaseException as error:  # An exit or an exhausted memory is an error of the code, too.
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = "%s: %s (%s, line %s)" % (type(error).__name__, error, os.path.basename(place.filename), place.lineno)
        return _FAIL, text.encode(errors="replace")[: AREA_BYTES // 8]


def main():
    """Runs the module for the server that has started this process; with --manifest, prints the manifest."""
    if sys.argv[1:] == ["--manifest"]:
        print("\n".join(_lines))
        return
    name, _, descriptor = os.environ.get("OVERTAKE_CHANNEL", "").partition(":")
    if name not in ("shared_memory", "unix_socket") or not descriptor.isdigit():
        sys.exit("OVERTAKE_CHANNEL must be shared_memory:FD or unix_socket:FD; Overtake starts this program")
    channel = (_Shared if name == "shared_memory" else _Socket)(int(descriptor))
    link = _Link(channel)
    try:
        channel.send(_READY, b"")
        while True:
            kind, entry, data = channel.receive()
            if kind != _INVOKE:
                sys.exit("message %d instead of an invocation" % kind)
            channel.send(*_answer(link, entry, data))
    except EOFError:
        pass
