// Library for stored procedures in TypeScript, run by Node.js 18 or later.
//
//     import * as overtake from "./overtake";
//
//     const ACCOUNT = overtake.table("account", "account", ["id", "balance"]);
//
//     overtake.procedure("withdraw", (call, account: bigint, amount: bigint) => {
//       const row = call.get(ACCOUNT, [account], true);
//       ...
//       call.put(ACCOUNT, [account, left]);
//     });
//
//     overtake.main();
//
// Values are null, boolean, bigint (integers), number (floating-point numbers), Decimal, string, Uint8Array (bytea),
// Moment (dates and times), Uuid, arrays, and Literal, the text form of a value of any other type.
//
// The first error of a call ends the invocation: code may clean up, but none of its later calls reaches the database.
//
// Node.js cannot wake a server that sleeps on shared memory; the channel unix_socket is the faster one.

import * as fs from "node:fs";

export const AREA_BYTES = 1 << 20;
const EMIT_BYTES = 64 << 10;
const FETCH_ROWS = 256;

/** Number unscaled / 10^scale: the type numeric. */
export class Decimal {
  constructor(
    readonly unscaled: bigint,
    readonly scale: number,
  ) {}

  toString(): string {
    const digits = (this.unscaled < 0n ? -this.unscaled : this.unscaled).toString().padStart(this.scale + 1, "0");
    const whole = digits.slice(0, digits.length - this.scale);
    const fraction = this.scale ? "." + digits.slice(digits.length - this.scale) : "";
    return (this.unscaled < 0n ? "-" : "") + whole + fraction;
  }
}

/** Date (days since 1970-01-01), time (microseconds since midnight), or timestamp (microseconds since 1970-01-01 UTC). */
export class Moment {
  constructor(
    readonly kind: "date" | "time" | "timestamp",
    readonly value: bigint,
  ) {}
}

/** UUID, in 16 bytes. */
export class Uuid {
  constructor(readonly bytes: Uint8Array) {}
}

/** Text form of a value that has no type here, such as an interval. */
export class Literal {
  constructor(readonly text: string) {}
}

export type Value =
  | null
  | boolean
  | bigint
  | number
  | string
  | Uint8Array
  | Decimal
  | Moment
  | Uuid
  | Literal
  | Value[];

export type Row = Value[];

/** Error that the code raises. */
export class SqlError extends Error {
  constructor(
    readonly state: string,
    message: string,
    readonly detail = "",
    readonly hint = "",
  ) {
    super(message);
  }
}

/** End of the invocation: the database knows the error. */
class Aborted extends Error {}

/** The server has closed the channel. */
class Closed extends Error {}

export interface Table {
  readonly number: number;
  readonly columns: number;
}

export interface Statement {
  readonly number: number;
}

/** Result of a statement. The cursor is null if it has no rows. */
export interface Executed {
  readonly rows: bigint;
  readonly cursor: Cursor | null;
}

const lines = ["overtake 1"];
const entries: ((call: Call, rows: Row[], result: Rows) => void)[] = [];
let tables = 0;
let statements = 0;

/** Names a table, and the columns that rows consist of. */
export function table(name: string, relation: string, columns: string[]): Table {
  lines.push(`table ${name} ${relation} (${columns.join(", ")})`);
  return { number: tables++, columns: columns.length };
}

/** Names a SQL statement, with parameters $1 and so on. */
export function statement(name: string, text: string): Statement {
  lines.push(`statement ${name} ${text.split("\n").join(" ")}`);
  return { number: statements++ };
}

function entry(name: string, run: (call: Call, rows: Row[], result: Rows) => void): void {
  lines.push(`entry ${name}`);
  entries.push(run);
}

/** Names a procedure. It returns nothing, or the row of its OUT parameters. */
export function procedure<A extends Value[]>(name: string, code: (call: Call, ...row: A) => Row | void): void {
  entry(name, (call, rows, result) => {
    for (const row of rows) result.add(code(call, ...(row as A)) ?? []);
  });
}

/** Names a scalar function. */
export function scalar<A extends Value[]>(name: string, code: (call: Call, ...row: A) => Value): void {
  entry(name, (call, rows, result) => {
    for (const row of rows) result.add([code(call, ...(row as A))]);
  });
}

/** Names a scalar function that gets many rows at once, and returns as many values. */
export function batchScalar(name: string, code: (call: Call, rows: Row[]) => Value[]): void {
  entry(name, (call, rows, result) => {
    for (const value of code(call, rows)) result.add([value]);
  });
}

/** Names a set-returning function, which emits its rows. */
export function setReturning<A extends Value[]>(name: string, code: (call: Call, ...row: A) => void): void {
  entry(name, (call, rows) => {
    for (const row of rows) code(call, ...(row as A));
  });
}

// Bytes

class Writer {
  private data = Buffer.alloc(4096);
  length = 0;

  private room(bytes: number): number {
    const at = this.length;
    if (this.data.length < at + bytes) {
      this.data = Buffer.concat([this.data], Math.max(2 * this.data.length, at + bytes));
    }
    this.length += bytes;
    return at;
  }

  u8(value: number): this {
    const at = this.room(1);
    this.data.writeUInt8(value, at);
    return this;
  }

  u16(value: number): this {
    const at = this.room(2);
    this.data.writeUInt16LE(value, at);
    return this;
  }

  u32(value: number): this {
    const at = this.room(4);
    this.data.writeUInt32LE(value, at);
    return this;
  }

  i64(value: bigint): this {
    const at = this.room(8);
    this.data.writeBigInt64LE(value, at);
    return this;
  }

  bytes(value: Uint8Array): this {
    const at = this.room(value.length);
    this.data.set(value, at);
    return this;
  }

  sized(value: Uint8Array): this {
    return this.u32(value.length).bytes(value);
  }

  /** Writes a message, which has to fit. */
  message(text: string): this {
    return this.sized(Buffer.from(text.slice(0, AREA_BYTES / 32).replace(/\0/g, " ")));
  }

  private decimal(value: Decimal): void {
    if (BigInt.asIntN(128, value.unscaled) !== value.unscaled) {
      this.value(new Literal(value.toString()));
      return;
    }
    this.u8(5).i64(BigInt.asIntN(64, value.unscaled)).i64(value.unscaled >> 64n).u16(value.scale);
  }

  private moment(value: Moment): void {
    if (value.kind === "date") {
      this.u8(8).u32(Number(BigInt.asUintN(32, value.value)));
    } else {
      this.u8(value.kind === "time" ? 9 : 10).i64(value.value);
    }
  }

  value(value: Value): void {
    if (value === null || value === undefined) {
      this.u8(0);
    } else if (typeof value === "boolean") {
      this.u8(value ? 2 : 1);
    } else if (typeof value === "bigint") {
      if (BigInt.asIntN(64, value) === value) this.u8(3).i64(value);
      else this.decimal(new Decimal(value, 0));
    } else if (typeof value === "number") {
      this.u8(4);
      const at = this.room(8);
      this.data.writeDoubleLE(value, at);
    } else if (typeof value === "string") {
      this.u8(6).sized(Buffer.from(value));
    } else if (value instanceof Uint8Array) {
      this.u8(7).sized(value);
    } else if (value instanceof Decimal) {
      this.decimal(value);
    } else if (value instanceof Moment) {
      this.moment(value);
    } else if (value instanceof Uuid) {
      this.u8(11).bytes(value.bytes);
    } else if (value instanceof Literal) {
      this.u8(12).sized(Buffer.from(value.text));
    } else if (Array.isArray(value)) {
      this.u8(13).u32(value.length).row(value);
    } else {
      throw new SqlError("42804", "an object is no SQL value");
    }
  }

  row(row: Row): this {
    for (const value of row) this.value(value);
    return this;
  }

  /** Returns the bytes. */
  all(): Buffer {
    return this.data.subarray(0, this.length);
  }

  /** Returns the bytes. They have to fit the area. */
  take(what: string): Buffer {
    if (this.length > AREA_BYTES) throw new SqlError("54000", `${what} of the routine exceeds 1024 kB`);
    return this.all();
  }
}

class Reader {
  private at = 0;

  constructor(private data: Buffer) {}

  private skip(bytes: number): number {
    const at = this.at;
    if (this.data.length < at + bytes) throw new SqlError("39000", "the server broke the protocol");
    this.at += bytes;
    return at;
  }

  u8(): number {
    return this.data.readUInt8(this.skip(1));
  }

  u16(): number {
    return this.data.readUInt16LE(this.skip(2));
  }

  u32(): number {
    return this.data.readUInt32LE(this.skip(4));
  }

  i64(): bigint {
    return this.data.readBigInt64LE(this.skip(8));
  }

  private bytes(length: number): Buffer {
    const at = this.skip(length);
    return Buffer.from(this.data.subarray(at, at + length));
  }

  value(): Value {
    const tag = this.u8();
    switch (tag) {
      case 0:
        return null;
      case 1:
      case 2:
        return tag === 2;
      case 3:
        return this.i64();
      case 4:
        return this.data.readDoubleLE(this.skip(8));
      case 5: {
        const low = BigInt.asUintN(64, this.i64());
        const high = this.i64();
        return new Decimal((high << 64n) | low, this.u16());
      }
      case 6:
        return this.bytes(this.u32()).toString();
      case 7:
        return this.bytes(this.u32());
      case 8:
        return new Moment("date", BigInt(this.data.readInt32LE(this.skip(4))));
      case 9:
        return new Moment("time", this.i64());
      case 10:
        return new Moment("timestamp", this.i64());
      case 11:
        return new Uuid(this.bytes(16));
      case 12:
        return new Literal(this.bytes(this.u32()).toString());
      case 13:
        return this.row(this.u32());
      default:
        throw new SqlError("39000", "the server broke the protocol");
    }
  }

  row(width: number): Row {
    const row: Row = [];
    for (let at = 0; at < width; at++) row.push(this.value());
    return row;
  }

  rows(): Row[] {
    const count = this.u32();
    const width = this.u16();
    const rows: Row[] = [];
    for (let at = 0; at < count; at++) rows.push(this.row(width));
    return rows;
  }
}

/** Rows that are sent together. */
class Rows {
  count = 0;
  private width = 0;
  private values = new Writer();

  add(row: Row): void {
    this.addEncoded(row.length, new Writer().row(row));
  }

  addEncoded(width: number, one: Writer): void {
    if (width === 0) return;
    if (this.count && width !== this.width) {
      throw new SqlError("42804", `a row of ${width} columns after one of ${this.width}`);
    }
    this.values.bytes(one.take("a result"));
    this.width = width;
    this.count++;
  }

  get bytes(): number {
    return this.values.length;
  }

  take(out: Writer): void {
    out.u32(this.count).u16(this.width).bytes(this.values.take("a result"));
    this.count = 0;
    this.values = new Writer();
  }
}

// Calls

type Read<T> = ((reader: Reader) => T) | null;

/** Bytes of a call, and how its answer is read. */
interface Made<T> {
  readonly data: Writer;
  readonly read: Read<T>;
}

function onTable(code: number, flag: boolean, table: Table): Writer {
  return new Writer().u8(code).u8(flag ? 1 : 0).u16(table.number);
}

const made = {
  get(table: Table, key: Row, lock: boolean): Made<Row | null> {
    return { data: onTable(1, lock, table).row(key), read: (reader) => (reader.u8() ? reader.row(table.columns) : null) };
  },
  put(table: Table, row: Row, insert: boolean): Made<undefined> {
    return { data: onTable(2, insert, table).row(row), read: null };
  },
  delete(table: Table, key: Row): Made<boolean> {
    return { data: new Writer().u8(3).u16(table.number).row(key), read: (reader) => reader.u8() === 1 };
  },
  scan(call: Call, table: Table, prefix: Row, descending: boolean): Made<Cursor> {
    const data = onTable(4, descending, table).u16(prefix.length).row(prefix);
    return { data, read: (reader) => new Cursor(call, reader.u32()) };
  },
  execute(call: Call, statement: Statement, parameters: Row): Made<Executed> {
    const read = (reader: Reader) => {
      const rows = BigInt.asUintN(64, reader.i64());
      return { rows, cursor: reader.u8() ? new Cursor(call, reader.u32()) : null };
    };
    return { data: new Writer().u8(7).u16(statement.number).row(parameters), read };
  },
  end(code: number): Made<undefined> {
    return { data: new Writer().u8(code), read: null };
  },
  notice(message: string, level: string): Made<undefined> {
    const number = ["debug", "log", "info", "notice", "warning"].indexOf(level);
    return { data: new Writer().u8(8).u8(number).message(message), read: null };
  },
};

/** Cursor over rows, which are fetched in packets. Other calls may be made meanwhile. */
export class Cursor implements Iterable<Row> {
  private rows: Row[] = [];
  private isOver = false;

  constructor(
    private call: Call,
    private number: number,
  ) {}

  *[Symbol.iterator](): Iterator<Row> {
    while (this.rows.length || !this.isOver) {
      if (this.rows.length === 0) {
        const reader = this.call.exchange(new Writer().u8(5).u32(this.number).u32(FETCH_ROWS));
        this.rows = reader.rows();
        this.isOver = reader.u8() === 1;
      }
      const row = this.rows.shift();
      if (row) yield row;
    }
  }

  /** Closes the cursor. The end of the invocation does so, too. */
  close(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.rows = [];
    this.call.exchange(new Writer().u8(6).u32(this.number));
  }
}

/** Invocation of an entry: the way to the database. */
export class Call {
  private emitted = new Rows();
  /** Reason why the invocation must end, once there is one. */
  private end: string | null = null;

  constructor(private channel: Channel) {}

  exchange(data: Writer): Reader {
    this.check();
    this.channel.send(CALL, data.take("a batch of calls"));
    const message = this.channel.receive();
    if (message.kind === ANSWER) return new Reader(message.data);
    this.end = message.data.toString();
    throw new Aborted(this.end);
  }

  /** Fails if the invocation must end: code that goes on after an error makes no more calls. */
  check(): void {
    if (this.end !== null) throw new Aborted(this.end);
  }

  private make<T>(one: Made<T>): T {
    const reader = this.exchange(one.data);
    return one.read ? one.read(reader) : (undefined as T);
  }

  /** Returns the row with this key, or null; with `lock`, as SELECT ... FOR UPDATE. */
  get(table: Table, key: Row, lock = false): Row | null {
    return this.make(made.get(table, key, lock));
  }

  /** Inserts a row, or updates the row with its key. */
  put(table: Table, row: Row): void {
    this.make(made.put(table, row, false));
  }

  /** Inserts a row. */
  insert(table: Table, row: Row): void {
    this.make(made.put(table, row, true));
  }

  /** Deletes the row with this key. Returns true if there was one. */
  delete(table: Table, key: Row): boolean {
    return this.make(made.delete(table, key));
  }

  /** Opens a cursor over the rows whose key begins with these values, in the order of the key. */
  scan(table: Table, prefix: Row, descending = false): Cursor {
    return this.make(made.scan(this, table, prefix, descending));
  }

  /** Executes a statement of the manifest. */
  execute(statement: Statement, parameters: Row): Executed {
    return this.make(made.execute(this, statement, parameters));
  }

  /**
   * Commits the transaction, and begins another. Cursors are closed. Only in a procedure that CALL runs outside a
   * transaction block.
   */
  commit(): void {
    this.make(made.end(11));
  }

  /** Rolls the transaction back to the last commit, and begins another. As commit. */
  rollback(): void {
    this.make(made.end(12));
  }

  /** Sends a notice: debug, log, info, notice or warning. */
  notice(message: string, level = "notice"): void {
    this.make(made.notice(message, level));
  }

  /** Begins a batch of calls, which the database makes at once. */
  batch(): Batch {
    return new Batch(this);
  }

  /** Adds a row to the result of a set-returning function. */
  emit(row: Row): void {
    const one = new Writer().row(row);
    if (this.emitted.bytes + one.length > EMIT_BYTES) this.flush();
    this.emitted.addEncoded(row.length, one);
  }

  flush(): void {
    if (this.emitted.count === 0) return;
    const data = new Writer().u8(10);
    this.emitted.take(data);
    this.exchange(data);
  }

  /** Tells the database an error. */
  raise(error: SqlError): void {
    const state = /^[0-9A-Z]{5}$/.test(error.state) ? error.state : "P0001";
    const data = new Writer().u8(9).bytes(Buffer.from(state));
    this.exchange(data.message(error.message).message(error.detail).message(error.hint));
  }
}

/** Calls that the database makes at once. Each method returns a function that returns the answer after `run`. */
export class Batch {
  private data = new Writer();
  private reads: ((reader: Reader) => void)[] = [];

  constructor(private call: Call) {}

  private add<T>(one: Made<T>): () => T {
    let answer: { value: T } | null = null;
    this.data.bytes(one.data.take("a call"));
    this.reads.push((reader) => {
      answer = { value: one.read ? one.read(reader) : (undefined as T) };
    });
    return () => {
      if (!answer) throw new SqlError("38000", "the batch has not run");
      return (answer as { value: T }).value;
    };
  }

  get(table: Table, key: Row, lock = false): () => Row | null {
    return this.add(made.get(table, key, lock));
  }

  put(table: Table, row: Row): void {
    this.add(made.put(table, row, false));
  }

  insert(table: Table, row: Row): void {
    this.add(made.put(table, row, true));
  }

  delete(table: Table, key: Row): () => boolean {
    return this.add(made.delete(table, key));
  }

  scan(table: Table, prefix: Row, descending = false): () => Cursor {
    return this.add(made.scan(this.call, table, prefix, descending));
  }

  execute(statement: Statement, parameters: Row): () => Executed {
    return this.add(made.execute(this.call, statement, parameters));
  }

  notice(message: string, level = "notice"): void {
    this.add(made.notice(message, level));
  }

  /** Makes the calls. */
  run(): void {
    if (this.reads.length === 0) return;
    const reader = this.call.exchange(this.data);
    for (const read of this.reads) read(reader);
    this.data = new Writer();
    this.reads = [];
  }
}

// Channels

const [INVOKE, ANSWER, READY, CALL, RETURN, FAIL] = [1, 2, 4, 5, 6, 7];

interface Message {
  readonly kind: number;
  readonly entry: number;
  readonly data: Buffer;
}

interface Channel {
  send(kind: number, data: Uint8Array): void;
  receive(): Message;
}

const PAUSE = new Int32Array(new SharedArrayBuffer(4));

function pause(milliseconds: number): void {
  Atomics.wait(PAUSE, 0, 0, milliseconds);
}

/** Socket that the server has opened. */
class SocketChannel implements Channel {
  constructor(private descriptor: number) {}

  private retried(transfer: () => number): number {
    for (;;) {
      try {
        return transfer();
      } catch (error) {
        const code = (error as { code?: string }).code;
        if (code === "EPIPE" || code === "ECONNRESET") throw new Closed();
        if (code !== "EAGAIN") throw error;
        pause(1);
      }
    }
  }

  send(kind: number, data: Uint8Array): void {
    const message = new Writer().u32(kind).u32(0).u32(data.length).bytes(data);
    const bytes = message.all();
    for (let at = 0; at < bytes.length; ) at += this.retried(() => fs.writeSync(this.descriptor, bytes, at));
  }

  private read(length: number): Buffer {
    const data = Buffer.alloc(length);
    for (let at = 0; at < length; ) {
      const count = this.retried(() => fs.readSync(this.descriptor, data, at, length - at, null));
      if (count === 0) throw new Closed();
      at += count;
    }
    return data;
  }

  receive(): Message {
    const head = this.read(12);
    return { kind: head.readUInt32LE(0), entry: head.readUInt32LE(4), data: this.read(head.readUInt32LE(8)) };
  }
}

/** Memory that the server has mapped, read and written as a file. Only the side that has the turn touches it. */
class SharedChannel implements Channel {
  private word = Buffer.alloc(4);

  constructor(private descriptor: number) {
    if (this.u32(0) !== 1) throw new Error("the shared memory has an unknown layout");
  }

  private u32(offset: number): number {
    fs.readSync(this.descriptor, this.word, 0, 4, offset);
    return this.word.readUInt32LE(0);
  }

  send(kind: number, data: Uint8Array): void {
    if (data.length) fs.writeSync(this.descriptor, data, 0, data.length, 4096);
    fs.writeSync(this.descriptor, new Writer().u32(kind).u32(0).u32(data.length).all(), 0, 12, 128);
    fs.writeSync(this.descriptor, new Writer().u32(0).all(), 0, 4, 64);
  }

  receive(): Message {
    for (let looks = 0; this.u32(64) !== 1; looks++) {
      if (looks >= 200) pause(0.1);
    }
    const data = Buffer.alloc(this.u32(136));
    if (data.length) fs.readSync(this.descriptor, data, 0, data.length, 4096);
    return { kind: this.u32(128), entry: this.u32(132), data };
  }
}

function invoke(call: Call, message: Message): Buffer {
  const code = entries[message.entry];
  if (!code) throw new SqlError("39000", `the module has no entry ${message.entry}`);
  const result = new Rows();
  code(call, new Reader(message.data).rows(), result);
  call.check();
  call.flush();
  const out = new Writer();
  result.take(out);
  return out.take("a result");
}

/** Runs an entry. Returns the message that ends the invocation. */
function answer(channel: Channel, message: Message): [number, Uint8Array] {
  const call = new Call(channel);
  try {
    try {
      return [RETURN, invoke(call, message)];
    } catch (error) {
      if (error instanceof SqlError) call.raise(error);
      throw error;
    }
  } catch (error) {
    if (error instanceof Closed) throw error;
    return [FAIL, Buffer.from(String(error).slice(0, AREA_BYTES / 32))];
  }
}

function open(): Channel {
  const [name, descriptor] = (process.env.OVERTAKE_CHANNEL ?? "").split(":");
  if (name === "unix_socket") return new SocketChannel(Number(descriptor));
  if (name === "shared_memory") return new SharedChannel(Number(descriptor));
  console.error("OVERTAKE_CHANNEL must be shared_memory:FD or unix_socket:FD; Overtake starts this program");
  process.exit(1);
}

/** Runs the module for the server that has started this process; with --manifest, prints the manifest. */
export function main(): void {
  if (process.argv[2] === "--manifest") {
    fs.writeSync(1, Buffer.from(lines.join("\n") + "\n"), 0);
    return;
  }
  const channel = open();
  try {
    channel.send(READY, new Uint8Array());
    for (;;) {
      const message = channel.receive();
      if (message.kind !== INVOKE) throw new Error(`message ${message.kind} is no invocation`);
      channel.send(...answer(channel, message));
    }
  } catch (error) {
    if (!(error instanceof Closed)) throw error;
  }
}
