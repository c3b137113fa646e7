// Library for stored procedures in AssemblyScript.
//
// assembly/index.ts defines the entries, and manifest.txt names them in the same order:
//
//     import { Call, Table, Value, run } from "./overtake";
//     export { overtake_area } from "./overtake";
//
//     const ACCOUNT = new Table(0, 2);      // number in the manifest, number of columns
//
//     function withdraw(call: Call): void {
//       const row = call.get(ACCOUNT, [call.argument(0)], true);
//       ...
//       call.result([Value.int(left)]);
//     }
//
//     export function overtake_invoke(entry: i32, length: i32): i32 {
//       return run(entry, length, [withdraw]);
//     }
//
// An entry runs once for each row of arguments. No method returns after an error of the database: the invocation ends,
// as it does at raise.

/** Bytes of the area through which calls and answers pass. */
export const AREA_BYTES: i32 = 1 << 20;

// @ts-ignore: decorator
@external("overtake", "call")
declare function overtake_call(length: i32): i32;

/** Returns the address of the area, which lies in static memory. */
function area(): usize {
  return memory.data(1 << 20, 16);
}

/** Export that the server needs; assembly/index.ts exports it, too. */
export function overtake_area(): i32 {
  return i32(area());
}

/** Kinds of values. */
export enum Kind {
  Null = 0,
  False = 1,
  True = 2,
  /** smallint, integer, bigint, oid */
  Int = 3,
  /** real, double precision */
  Float = 4,
  /** numeric */
  Decimal = 5,
  /** text and its like */
  Text = 6,
  /** bytea */
  Bytes = 7,
  /** days since 1970-01-01 */
  Date = 8,
  /** microseconds since midnight */
  Time = 9,
  /** microseconds since 1970-01-01 UTC */
  Timestamp = 10,
  Uuid = 11,
  /** text form of a value of any other type */
  Literal = 12,
  /** array of one dimension */
  Array = 13,
}

/** SQL value. */
export class Value {
  kind: Kind = Kind.Null;
  /** Number of an Int, Date, Time or Timestamp; lower half of a Decimal without its point. */
  integer: i64 = 0;
  /** Upper half of a Decimal without its point. */
  high: i64 = 0;
  /** Digits of a Decimal after its point. */
  scale: u16 = 0;
  real: f64 = 0;
  text: string = "";
  bytes: Uint8Array | null = null;
  /** Items of an Array. */
  items: Value[] = [];

  constructor(kind: Kind) {
    this.kind = kind;
  }

  static null(): Value {
    return new Value(Kind.Null);
  }

  static bool(value: bool): Value {
    return new Value(value ? Kind.True : Kind.False);
  }

  static int(value: i64): Value {
    return Value.moment(Kind.Int, value);
  }

  static float(value: f64): Value {
    const made = new Value(Kind.Float);
    made.real = value;
    return made;
  }

  /** Returns the number value / 10^scale. */
  static decimal(value: i64, scale: u16): Value {
    const made = Value.moment(Kind.Decimal, value);
    made.high = value >> 63;
    made.scale = scale;
    return made;
  }

  static of(text: string): Value {
    const made = new Value(Kind.Text);
    made.text = text;
    return made;
  }

  static literal(text: string): Value {
    const made = new Value(Kind.Literal);
    made.text = text;
    return made;
  }

  static array(items: Value[]): Value {
    const made = new Value(Kind.Array);
    made.items = items;
    return made;
  }

  static blob(bytes: Uint8Array): Value {
    const made = new Value(Kind.Bytes);
    made.bytes = bytes;
    return made;
  }

  /** Returns an Int, Date, Time or Timestamp. */
  static moment(kind: Kind, value: i64): Value {
    const made = new Value(kind);
    made.integer = value;
    return made;
  }

  get isNull(): bool {
    return this.kind == Kind.Null;
  }

  asBool(): bool {
    this.expect(this.kind == Kind.True || this.kind == Kind.False, "a boolean is expected");
    return this.kind == Kind.True;
  }

  asInt(): i64 {
    const isNumber = this.kind == Kind.Int || (this.kind >= Kind.Date && this.kind <= Kind.Timestamp);
    this.expect(isNumber, "an integer is expected");
    return this.integer;
  }

  asFloat(): f64 {
    this.expect(this.kind == Kind.Float || this.kind == Kind.Int, "a floating-point number is expected");
    return this.kind == Kind.Int ? <f64>this.integer : this.real;
  }

  /** Returns a Decimal or Int times 10^scale. A number that has more digits after its point is an error. */
  asScaled(scale: u16): i64 {
    const isNumber = this.kind == Kind.Decimal || this.kind == Kind.Int;
    this.expect(isNumber && this.high == this.integer >> 63 && this.scale <= scale, "a smaller number is expected");
    let value = this.integer;
    for (let digits = this.scale; digits < scale; digits++) {
      if (value > i64.MAX_VALUE / 10 || value < i64.MIN_VALUE / 10) raise("22003", "the number is too large");
      value *= 10;
    }
    return value;
  }

  asText(): string {
    this.expect(this.kind == Kind.Text || this.kind == Kind.Literal, "a text is expected");
    return this.text;
  }

  asBytes(): Uint8Array {
    this.expect(this.kind == Kind.Bytes || this.kind == Kind.Uuid, "bytes are expected");
    return this.bytes!;
  }

  private expect(isKind: bool, otherwise: string): void {
    if (this.isNull) raise("22004", "a value is expected instead of NULL");
    if (!isKind) raise("42804", otherwise);
  }
}

/** Table of the manifest: its number, and how many columns the manifest lists. */
export class Table {
  constructor(
    public number: u16,
    public columns: u16,
  ) {}
}

/** Bytes that are written. */
class Writer {
  data: StaticArray<u8> = new StaticArray<u8>(4096);
  length: i32 = 0;

  private grow(more: i32): void {
    if (this.length + more > AREA_BYTES) raise("54000", "a message of the routine exceeds 1024 kB");
    if (this.length + more <= this.data.length) return;
    const data = new StaticArray<u8>(min(AREA_BYTES, max(2 * this.data.length, this.length + more)));
    memory.copy(changetype<usize>(data), changetype<usize>(this.data), this.length);
    this.data = data;
  }

  put<T>(value: T): void {
    this.grow(sizeof<T>());
    store<T>(changetype<usize>(this.data) + this.length, value);
    this.length += sizeof<T>();
  }

  copy(from: usize, length: i32): void {
    this.grow(length);
    memory.copy(changetype<usize>(this.data) + this.length, from, length);
    this.length += length;
  }

  text(text: string): void {
    const bytes = String.UTF8.encode(text);
    this.put<u32>(bytes.byteLength);
    this.copy(changetype<usize>(bytes), bytes.byteLength);
  }

  value(value: Value): void {
    this.put<u8>(<u8>value.kind);
    switch (value.kind) {
      case Kind.Null:
      case Kind.False:
      case Kind.True:
        break;
      case Kind.Int:
      case Kind.Time:
      case Kind.Timestamp:
        this.put<i64>(value.integer);
        break;
      case Kind.Date:
        this.put<i32>(<i32>value.integer);
        break;
      case Kind.Float:
        this.put<f64>(value.real);
        break;
      case Kind.Decimal:
        this.put<i64>(value.integer);
        this.put<i64>(value.high);
        this.put<u16>(value.scale);
        break;
      case Kind.Text:
      case Kind.Literal:
        this.text(value.text);
        break;
      case Kind.Bytes: {
        const bytes = value.bytes!;
        this.put<u32>(bytes.length);
        this.copy(bytes.dataStart, bytes.length);
        break;
      }
      case Kind.Uuid:
        this.copy(value.bytes!.dataStart, 16);
        break;
      case Kind.Array:
        this.put<u32>(value.items.length);
        this.values(value.items);
        break;
      default:
        raise("42804", "a value has an unknown kind");
    }
  }

  values(row: Value[]): void {
    for (let at = 0; at < row.length; at++) this.value(row[at]);
  }

  clear(): void {
    this.length = 0;
  }
}

/** Cursor over the bytes of the area. */
class Reader {
  private at: usize = area();
  private end: usize;

  constructor(length: i32) {
    this.end = this.at + length;
  }

  private skip(length: i32): usize {
    const at = this.at;
    if (this.end - at < <usize>length) raise("39000", "the server broke the protocol");
    this.at += length;
    return at;
  }

  get<T>(): T {
    return load<T>(this.skip(sizeof<T>()));
  }

  private blob(length: i32): Uint8Array {
    const bytes = new Uint8Array(length);
    memory.copy(bytes.dataStart, this.skip(length), length);
    return bytes;
  }

  private text(): string {
    const length = this.get<u32>();
    return String.UTF8.decodeUnsafe(this.skip(length), length);
  }

  value(): Value {
    const value = new Value(this.get<u8>());
    switch (value.kind) {
      case Kind.Null:
      case Kind.False:
      case Kind.True:
        break;
      case Kind.Int:
      case Kind.Time:
      case Kind.Timestamp:
        value.integer = this.get<i64>();
        break;
      case Kind.Date:
        value.integer = this.get<i32>();
        break;
      case Kind.Float:
        value.real = this.get<f64>();
        break;
      case Kind.Decimal:
        value.integer = this.get<i64>();
        value.high = this.get<i64>();
        value.scale = this.get<u16>();
        break;
      case Kind.Text:
      case Kind.Literal:
        value.text = this.text();
        break;
      case Kind.Bytes:
        value.bytes = this.blob(this.get<u32>());
        break;
      case Kind.Uuid:
        value.bytes = this.blob(16);
        break;
      case Kind.Array: {
        const count = this.get<u32>();
        for (let at: u32 = 0; at < count; at++) {
          value.items.push(this.value());
        }
        break;
      }
      default:
        raise("39000", "the server broke the protocol");
    }
    return value;
  }

  row(width: i32): Value[] {
    const row = new Array<Value>();
    for (let at = 0; at < width; at++) row.push(this.value());
    return row;
  }

  rows(): Value[][] {
    const count = this.get<u32>();
    const width = this.get<u16>();
    const rows = new Array<Value[]>();
    for (let at: u32 = 0; at < count; at++) rows.push(this.row(width));
    return rows;
  }
}

/** Rows that are sent together. */
class Rows {
  count: u32 = 0;
  width: u16 = 0;
  values: Writer = new Writer();

  add(row: Value[]): void {
    if (row.length == 0) return;
    if (this.count && row.length != this.width) raise("42804", "rows of the result have different numbers of columns");
    this.width = <u16>row.length;
    this.count++;
    this.values.values(row);
  }

  take(out: Writer): void {
    out.put<u32>(this.count);
    out.put<u16>(this.width);
    out.copy(changetype<usize>(this.values.data), this.values.length);
    this.count = 0;
    this.values.clear();
  }
}

function exchange(request: Writer): Reader {
  memory.copy(area(), changetype<usize>(request.data), request.length);
  // The server does not return after an error: it drops the module.
  return new Reader(overtake_call(request.length));
}

/** Ends the invocation with this SQLSTATE and message. */
export function raise(state: string, message: string, detail: string = "", hint: string = ""): void {
  const request = new Writer();
  request.put<u8>(9);
  const code = String.UTF8.encode(state.length == 5 ? state : "P0001");
  request.copy(changetype<usize>(code), 5);
  request.text(message.slice(0, 65536));
  request.text(detail.slice(0, 65536));
  request.text(hint.slice(0, 65536));
  exchange(request);
  unreachable();
}

/** Receiver of failed assertions, to which `asc --use abort=assembly/overtake/abort` leads. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const text = message === null ? "the routine aborted" : message;
  raise("38000", text + " (" + (file === null ? "?" : file) + ", line " + line.toString() + ")");
}

/** Result of a statement. */
export class Executed {
  constructor(
    public rows: u64,
    public cursor: Cursor | null,
  ) {}
}

/** Cursor over rows, which are fetched in packets. Other calls may be made meanwhile. */
export class Cursor {
  private at: i32 = 0;

  constructor(
    private number: u32,
    private fetched: Value[][] = [],
    private isOver: bool = false,
  ) {}

  /** Returns the next row, and null after the last. */
  next(): Value[] | null {
    while (this.at == this.fetched.length && !this.isOver) {
      const request = new Writer();
      request.put<u8>(5);
      request.put<u32>(this.number);
      request.put<u32>(256);
      const answer = exchange(request);
      this.fetched = answer.rows();
      this.isOver = answer.get<u8>() == 1;
      this.at = 0;
    }
    return this.at < this.fetched.length ? this.fetched[this.at++] : null;
  }

  /** Closes the cursor. The end of the invocation does so, too. */
  close(): void {
    this.fetched = [];
    this.at = 0;
    if (this.isOver) return;
    this.isOver = true;
    const request = new Writer();
    request.put<u8>(6);
    request.put<u32>(this.number);
    exchange(request);
  }
}

/** Calls that the database makes at once. After run, the answers are read in the order of the calls. */
export class Batch {
  private request: Writer = new Writer();
  private answers: Reader | null = null;

  private begin(code: u8, flag: bool, table: Table): void {
    this.request.put<u8>(code);
    this.request.put<u8>(flag ? 1 : 0);
    this.request.put<u16>(table.number);
  }

  /** Adds a search by key. Read the answer by `row`. */
  get(table: Table, key: Value[], lock: bool = false): void {
    this.begin(1, lock, table);
    this.request.values(key);
  }

  /** Adds an insertion or update. It has no answer. */
  put(table: Table, row: Value[]): void {
    this.begin(2, false, table);
    this.request.values(row);
  }

  /** Adds an insertion. It has no answer. */
  insert(table: Table, row: Value[]): void {
    this.begin(2, true, table);
    this.request.values(row);
  }

  /** Adds a deletion. Read the answer by `bool`. */
  delete(table: Table, key: Value[]): void {
    this.request.put<u8>(3);
    this.request.put<u16>(table.number);
    this.request.values(key);
  }

  /** Adds a scan of the rows whose key begins with these values. Read the answer by `cursor`. */
  scan(table: Table, prefix: Value[], descending: bool = false): void {
    this.begin(4, descending, table);
    this.request.put<u16>(<u16>prefix.length);
    this.request.values(prefix);
  }

  /** Adds a statement of the manifest. Read the answer by `executed`. */
  execute(statement: u16, parameters: Value[]): void {
    this.request.put<u8>(7);
    this.request.put<u16>(statement);
    this.request.values(parameters);
  }

  /** Adds a statement of the manifest whose rows come with the answer. Read it by `queried`. */
  query(statement: u16, parameters: Value[]): void {
    this.request.put<u8>(13);
    this.request.put<u16>(statement);
    this.request.values(parameters);
  }

  /** Adds a notice: 0 debug, 1 log, 2 info, 3 notice, 4 warning. It has no answer. */
  notice(level: u8, message: string): void {
    this.request.put<u8>(8);
    this.request.put<u8>(level);
    this.request.text(message);
  }

  /**
   * Adds the commit of the transaction, after which another begins and cursors are closed. Only in a procedure that CALL
   * runs outside a transaction block. It has no answer.
   */
  commit(): void {
    this.request.put<u8>(11);
  }

  /** Adds the rollback of the transaction to the last commit. As commit. */
  rollback(): void {
    this.request.put<u8>(12);
  }

  /** Makes the calls. */
  run(): void {
    if (this.request.length == 0) return;
    this.answers = exchange(this.request);
    this.request = new Writer();
  }

  /** Reads the answer to `get`: the row, or null. */
  row(table: Table): Value[] | null {
    return this.bool() ? this.answers!.row(table.columns) : null;
  }

  /** Reads the answer to `delete`: true if there was a row. */
  bool(): bool {
    return this.answers!.get<u8>() == 1;
  }

  /** Reads the answer to `scan`. */
  cursor(): Cursor {
    return new Cursor(this.answers!.get<u32>());
  }

  /** Reads the answer to `execute`. */
  executed(): Executed {
    const rows = this.answers!.get<u64>();
    return new Executed(rows, this.bool() ? this.cursor() : null);
  }

  /** Reads the answer to `query`: a cursor that has fetched the rows which have come. */
  queried(): Cursor {
    const answers = this.answers!;
    answers.get<u64>();
    const rows = answers.rows();
    return this.bool() ? new Cursor(0, rows, true) : new Cursor(answers.get<u32>(), rows);
  }
}

/** Invocation of an entry, for one row of arguments. */
export class Call {
  private emitted: Rows = new Rows();
  private returned: Rows = new Rows();
  arguments: Value[] = [];

  /** Returns an argument; the first is 0. */
  argument(at: i32): Value {
    if (at >= this.arguments.length) raise("42703", "the entry has fewer arguments");
    return this.arguments[at];
  }

  /** Adds a row to the result: the value of a function, or the OUT parameters of a procedure. */
  result(row: Value[]): void {
    this.returned.add(row);
  }

  /** Adds a row to the result of a set-returning function, whatever its number of rows. */
  emit(row: Value[]): void {
    this.emitted.add(row);
    if (this.emitted.values.length >= 1 << 16) this.flush();
  }

  private flush(): void {
    if (this.emitted.count == 0) return;
    const request = new Writer();
    request.put<u8>(10);
    this.emitted.take(request);
    exchange(request);
  }

  /** Begins a batch of calls. */
  batch(): Batch {
    return new Batch();
  }

  /** Returns the row with this key, or null; with `lock`, as SELECT ... FOR UPDATE. */
  get(table: Table, key: Value[], lock: bool = false): Value[] | null {
    const batch = new Batch();
    batch.get(table, key, lock);
    batch.run();
    return batch.row(table);
  }

  /** Inserts a row, or updates the row with its key. */
  put(table: Table, row: Value[]): void {
    const batch = new Batch();
    batch.put(table, row);
    batch.run();
  }

  /** Inserts a row. */
  insert(table: Table, row: Value[]): void {
    const batch = new Batch();
    batch.insert(table, row);
    batch.run();
  }

  /** Deletes the row with this key. Returns true if there was one. */
  delete(table: Table, key: Value[]): bool {
    const batch = new Batch();
    batch.delete(table, key);
    batch.run();
    return batch.bool();
  }

  /** Opens a cursor over the rows whose key begins with these values, in the order of the key. */
  scan(table: Table, prefix: Value[], descending: bool = false): Cursor {
    const batch = new Batch();
    batch.scan(table, prefix, descending);
    batch.run();
    return batch.cursor();
  }

  /** Executes a statement of the manifest. */
  execute(statement: u16, parameters: Value[]): Executed {
    const batch = new Batch();
    batch.execute(statement, parameters);
    batch.run();
    return batch.executed();
  }

  /** Executes a statement of the manifest. Its rows come with the answer, as far as they fit it. */
  query(statement: u16, parameters: Value[]): Cursor {
    const batch = new Batch();
    batch.query(statement, parameters);
    batch.run();
    return batch.queried();
  }

  /** Commits the transaction, and begins another. */
  commit(): void {
    const batch = new Batch();
    batch.commit();
    batch.run();
  }

  /** Rolls the transaction back to the last commit, and begins another. */
  rollback(): void {
    const batch = new Batch();
    batch.rollback();
    batch.run();
  }

  /** Sends a notice: 0 debug, 1 log, 2 info, 3 notice, 4 warning. */
  notice(level: u8, message: string): void {
    const batch = new Batch();
    batch.notice(level, message);
    batch.run();
  }

  /** Writes the result into the area. */
  finish(): i32 {
    const out = new Writer();
    this.flush();
    this.returned.take(out);
    memory.copy(area(), changetype<usize>(out.data), out.length);
    return out.length;
  }
}

/** Runs an entry for each row of arguments in the area. */
export function run(entry: i32, length: i32, entries: ((call: Call) => void)[]): i32 {
  if (entry >= entries.length) raise("39000", "the module has no such entry");
  const rows = new Reader(length).rows();
  const call = new Call();
  for (let at = 0; at < rows.length; at++) {
    call.arguments = rows[at];
    entries[entry](call);
  }
  return call.finish();
}
