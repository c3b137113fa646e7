// Library for stored procedures in TypeScript, run by an engine in WebAssembly, or by Node.js 18 or later.
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
// In WebAssembly there is no Node.js: no clock, no random numbers, no files, and a console that shows nothing.
//
// Node.js cannot wake a server that sleeps on shared memory; the channel unix_socket is the faster one.

import { ANSWER, FAIL, INVOKE, READY, RETURN } from "./overtake/channels";
import { Closed, type Exchange, type Message, WasmChannel, files, open } from "./overtake/channels";
import { AREA_BYTES, Reader, type Row, SqlError, type Value, WASM, Writer, decode, encode } from "./overtake/wire";

export { AREA_BYTES, Decimal, Literal, Moment, type Row, SqlError, Uuid, type Value } from "./overtake/wire";

const EMIT_BYTES = 64 << 10;
const FETCH_ROWS = 256;

/** End of the invocation: the database knows the error. */
class Aborted extends Error {}

export interface Table {
  readonly number: number;
  readonly columns: number;
}

export interface Statement {
  readonly number: number;
}

const NOTICE_LEVELS = ["debug", "log", "info", "notice", "warning"] as const;

/** Level of a notice, as in RAISE. */
export type NoticeLevel = (typeof NOTICE_LEVELS)[number];

/** Result of a statement. The cursor is null if it has no rows. */
export interface Executed {
  readonly rows: bigint;
  readonly cursor: Cursor | null;
}

const lines = ["overtake 1"];
const names = new Set<string>();
const entries: ((call: Call, rows: Row[], result: Rows) => void)[] = [];
let tables = 0;
let statements = 0;

/** Checks a name of the manifest: it is one word, and the only one of its kind. */
function named(kind: string, name: string): string {
  const told = JSON.stringify(name);
  if (!/^\S+$/.test(name)) throw new Error(`${told} cannot be the name of this ${kind}: a name is one word`);
  const line = `${kind} ${name}`;
  if (names.has(line)) throw new Error(`more than one ${kind} is named ${told}`);
  names.add(line);
  return line;
}

/** Names a table, and the columns that rows consist of. */
export function table(name: string, relation: string, columns: string[]): Table {
  lines.push(`${named("table", name)} ${relation} (${columns.join(", ")})`);
  return { number: tables++, columns: columns.length };
}

/** Names a SQL statement, with parameters $1 and so on. */
export function statement(name: string, text: string): Statement {
  lines.push(`${named("statement", name)} ${text.split("\n").join(" ")}`);
  return { number: statements++ };
}

/** Returns what code has returned. It cannot be a promise: nothing waits for one. */
function returned<T>(value: T): T {
  if (typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function") {
    throw new SqlError("0A000", "asynchronous code in a stored procedure is not supported");
  }
  return value;
}

function entry(name: string, run: (call: Call, rows: Row[], result: Rows) => void): void {
  lines.push(named("entry", name));
  entries.push(run);
}

/** Names a procedure. It returns nothing, or the row of its OUT parameters. */
export function procedure<A extends Value[]>(name: string, code: (call: Call, ...row: A) => Row | void): void {
  entry(name, (call, rows, result) => {
    for (const row of rows) result.add(returned(code(call, ...(row as A))) ?? []);
  });
}

/** Names a scalar function. */
export function scalar<A extends Value[]>(name: string, code: (call: Call, ...row: A) => Value): void {
  entry(name, (call, rows, result) => {
    for (const row of rows) result.add([returned(code(call, ...(row as A)))]);
  });
}

/** Names a scalar function that gets many rows at once, and returns as many values. */
export function batchScalar(name: string, code: (call: Call, rows: Row[]) => Value[]): void {
  entry(name, (call, rows, result) => {
    for (const value of returned(code(call, rows))) result.add([returned(value)]);
  });
}

/** Names a set-returning function, which emits its rows. */
export function setReturning<A extends Value[]>(name: string, code: (call: Call, ...row: A) => void): void {
  entry(name, (call, rows) => {
    for (const row of rows) returned<unknown>(code(call, ...(row as A)));
  });
}

/** Rows that are sent together: their number, their width, and the values. */
class Rows {
  private begin: number;
  private count = 0;
  private width = 0;

  constructor(
    private out: Writer,
    private code?: number,
  ) {
    this.begin = this.restart();
  }

  private restart(): number {
    this.count = this.out.length = 0;
    if (this.code !== undefined) this.out.u8(this.code);
    return this.out.u32(0).u16(0).length;
  }

  /** Adds a row. Rows that no longer fit a packet with it are passed to `flush` first. */
  add(row: Row, flush?: (rows: Writer) => void): void {
    if (row.length === 0) return;
    if (this.count && row.length !== this.width) {
      throw new SqlError("42804", `a row of ${row.length} columns after one of ${this.width}`);
    }
    const before = this.out.length;
    this.out.row(row);
    if (flush && this.count && this.out.length > EMIT_BYTES) {
      const after = this.out.length;
      this.out.length = before;
      flush(this.packet());
      this.out.length = after;
      this.out.cut(this.begin, before);
      this.count = 0;
    }
    if (this.out.length > AREA_BYTES) this.out.take("a result");
    this.width = row.length;
    this.count++;
  }

  private packet(): Writer {
    return this.out.patch(this.begin - 6, this.count, this.width);
  }

  /** Passes the rows to `send`, if there are any, and forgets them. */
  flush(send: (rows: Writer) => void): void {
    if (this.count) send(this.packet());
    this.restart();
  }

  /** Returns the bytes of all rows. */
  all(): Uint8Array {
    return this.packet().take("a result");
  }
}

// Messages of an invocation. There is one at a time, so that the memory can be used again.
const [CALLS, EMITTED, RESULT] = [new Writer(), new Writer(), new Writer()];

// Calls

/** Call: how it is written, and how its answer is read. */
interface Made<T> {
  write(out: Writer): void;
  readonly read: ((reader: Reader) => T) | null;
}

function onTable(out: Writer, code: number, flag: boolean, table: Table): Writer {
  return out.u8(code).u8(flag ? 1 : 0).u16(table.number);
}

const made = {
  get(table: Table, key: Row, lock: boolean): Made<Row | null> {
    return {
      write: (out) => onTable(out, 1, lock, table).row(key),
      read: (reader) => (reader.u8() ? reader.row(table.columns) : null),
    };
  },
  put(table: Table, row: Row, insert: boolean): Made<undefined> {
    return { write: (out) => onTable(out, 2, insert, table).row(row), read: null };
  },
  delete(table: Table, key: Row): Made<boolean> {
    return { write: (out) => out.u8(3).u16(table.number).row(key), read: (reader) => reader.u8() === 1 };
  },
  scan(call: Call, table: Table, prefix: Row, descending: boolean): Made<Cursor> {
    return {
      write: (out) => onTable(out, 4, descending, table).u16(prefix.length).row(prefix),
      read: (reader) => new Cursor(call, reader.u32()),
    };
  },
  execute(call: Call, statement: Statement, parameters: Row): Made<Executed> {
    const read = (reader: Reader) => {
      const rows = BigInt.asUintN(64, reader.i64());
      return { rows, cursor: reader.u8() ? new Cursor(call, reader.u32()) : null };
    };
    return { write: (out) => out.u8(7).u16(statement.number).row(parameters), read };
  },
  query(call: Call, statement: Statement, parameters: Row): Made<Cursor> {
    const read = (reader: Reader) => {
      reader.i64();
      const rows = reader.rows();
      return reader.u8() === 1 ? new Cursor(call, 0, rows, true) : new Cursor(call, reader.u32(), rows);
    };
    return { write: (out) => out.u8(13).u16(statement.number).row(parameters), read };
  },
  end(code: number): Made<undefined> {
    return { write: (out) => out.u8(code), read: null };
  },
  notice(message: string, level: NoticeLevel): Made<undefined> {
    const number = NOTICE_LEVELS.indexOf(level);
    return { write: (out) => out.u8(8).u8(number).message(message), read: null };
  },
};

/** Cursor over rows, which are fetched in packets. Other calls may be made meanwhile. */
export class Cursor implements Iterable<Row> {
  constructor(
    private call: Call,
    private number: number,
    private rows: Row[] = [],
    private isOver = false,
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
    this.rows = [];
    if (this.isOver) return;
    this.isOver = true;
    this.call.exchange(new Writer().u8(6).u32(this.number));
  }
}

/** Invocation of an entry: the way to the database. */
export class Call {
  private emitted: Rows | null = null;
  /** Reason why the invocation must end, once there is one. */
  private end: string | null = null;

  constructor(private channel: Exchange) {}

  exchange(data: Writer): Reader {
    this.check();
    const answer = this.channel.exchange(data.take("a batch of calls"));
    if (answer.kind === ANSWER) return new Reader(answer.data, answer.length);
    this.end = decode(answer.data, 0, answer.length);
    throw new Aborted(this.end);
  }

  /** Fails if the invocation must end: code that goes on after an error makes no more calls. */
  check(): void {
    if (this.end !== null) throw new Aborted(this.end);
  }

  private make<T>(one: Made<T>): T {
    CALLS.length = 0;
    one.write(CALLS);
    const reader = this.exchange(CALLS);
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

  /** Executes a statement of the manifest, and returns all rows of its result, which come with the answer. */
  query(statement: Statement, parameters: Row): Row[] {
    return [...this.make(made.query(this, statement, parameters))];
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

  /** Sends a notice. */
  notice(message: string, level: NoticeLevel = "notice"): void {
    this.make(made.notice(message, level));
  }

  /** Begins a batch of calls, which the database makes at once. */
  batch(): Batch {
    return new Batch(this);
  }

  /** Adds a row to the result of a set-returning function. */
  emit(row: Row): void {
    this.emitted ??= new Rows(EMITTED, 10);
    this.emitted.add(row, (packet) => this.exchange(packet));
  }

  flush(): void {
    this.emitted?.flush((packet) => this.exchange(packet));
  }

  /** Tells the database an error. */
  raise(error: SqlError): void {
    const state = /^[0-9A-Z]{5}$/.test(error.state) ? error.state : "P0001";
    const data = new Writer().u8(9).bytes(encode(state));
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
    const begin = this.data.length;
    try {
      one.write(this.data);
    } catch (error) {
      this.data.length = begin;
      throw error;
    }
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

  /** Executes a statement of the manifest. Its rows come with the answer, as far as they fit it. */
  query(statement: Statement, parameters: Row): () => Cursor {
    return this.add(made.query(this.call, statement, parameters));
  }

  notice(message: string, level: NoticeLevel = "notice"): void {
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

function invoke(call: Call, message: Message): Uint8Array {
  const code = entries[message.entry];
  if (!code) throw new SqlError("39000", `the module has no entry ${message.entry}`);
  const result = new Rows(RESULT);
  code(call, new Reader(message.data, message.length).rows(), result);
  call.check();
  call.flush();
  return result.all();
}

/** Runs an entry. Returns its result, or the reason for its failure. */
function run(channel: Exchange, message: Message): Uint8Array | string {
  const call = new Call(channel);
  try {
    try {
      return invoke(call, message);
    } catch (error) {
      if (error instanceof SqlError) call.raise(error);
      throw error;
    }
  } catch (error) {
    if (error instanceof Closed) throw error;
    return String(error).slice(0, AREA_BYTES / 32);
  }
}

/** Runs an entry in the memory of a WebAssembly module. Returns the length of the result. */
function runInWasm(channel: WasmChannel, entry: number, length: number): number {
  const result = run(channel, channel.message(INVOKE, entry, length));
  if (typeof result !== "string") return channel.put(result);
  // As the server tells the failure of a process.
  new Call(channel).raise(new SqlError("38000", `the routine failed: ${result}`));
  return -1;
}

/**
 * Runs the module for the server: in the WebAssembly module that has evaluated this code, or the process that it has
 * started; with --manifest, prints the manifest.
 */
export function main(): void {
  const manifest = lines.join("\n") + "\n";
  if (WASM) {
    const channel = new WasmChannel(WASM);
    WASM.start(manifest, (entry, length) => runInWasm(channel, entry, length));
    return;
  }
  if (process.argv[2] === "--manifest") {
    files().writeSync(1, encode(manifest), 0);
    return;
  }
  const channel = open();
  try {
    channel.send(READY, new Uint8Array());
    for (;;) {
      const message = channel.receive();
      if (message.kind !== INVOKE) throw new Error(`message ${message.kind} is no invocation`);
      const result = run(channel, message);
      if (typeof result === "string") channel.send(FAIL, encode(result));
      else channel.send(RETURN, result);
    }
  } catch (error) {
    if (!(error instanceof Closed)) throw error;
  }
}
