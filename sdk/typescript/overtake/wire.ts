// Values, and their bytes in messages.

export const AREA_BYTES = 1 << 20;

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

/** What the engine in WebAssembly gives (`engine/engine.c`). */
export interface WasmHost {
  readonly area: ArrayBuffer;
  call(length: number): number;
  encode(text: string): ArrayBuffer;
  decode(at: number, length: number): string;
  start(manifest: string, invoke: (entry: number, length: number) => number): void;
}

declare const overtakeHost: WasmHost | undefined;

export const WASM = typeof overtakeHost === "undefined" ? null : overtakeHost;
const [encoder, decoder] = WASM ? [] : [new TextEncoder(), new TextDecoder("utf-8", { ignoreBOM: true })];

export function encode(text: string): Uint8Array {
  return encoder ? encoder.encode(text) : new Uint8Array((WASM as WasmHost).encode(text));
}

/** Returns a text of a message. In WebAssembly, messages are in the area. */
export function decode(data: DataView, at: number, length: number): string {
  at += data.byteOffset;
  return decoder ? decoder.decode(new Uint8Array(data.buffer, at, length)) : (WASM as WasmHost).decode(at, length);
}

export class Writer {
  private data = new Uint8Array(256);
  private view = new DataView(this.data.buffer);
  private size = 256;
  length = 0;

  private room(bytes: number): number {
    const at = this.length;
    this.length += bytes;
    if (this.size < this.length) this.grow();
    return at;
  }

  private grow(): void {
    const before = this.data;
    this.size = Math.max(2 * this.size, this.length);
    this.data = new Uint8Array(this.size);
    this.data.set(before);
    this.view = new DataView(this.data.buffer);
  }

  u8(value: number): this {
    const at = this.room(1);
    this.data[at] = value;
    return this;
  }

  u16(value: number): this {
    const at = this.room(2);
    this.view.setUint16(at, value, true);
    return this;
  }

  u32(value: number): this {
    const at = this.room(4);
    this.view.setUint32(at, value, true);
    return this;
  }

  i64(value: bigint): this {
    const at = this.room(8);
    this.view.setBigInt64(at, value, true);
    return this;
  }

  private f64(value: number): this {
    const at = this.room(8);
    this.view.setFloat64(at, value, true);
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
    return this.sized(encode(text.slice(0, AREA_BYTES / 32).replace(/\0/g, " ")));
  }

  private decimal(value: Decimal): void {
    if (BigInt.asIntN(128, value.unscaled) !== value.unscaled) {
      this.value(new Literal(value.toString()));
      return;
    }
    if (!Number.isInteger(value.scale) || value.scale < 0 || 65_535 < value.scale) {
      throw new SqlError("22003", `a decimal has a scale from 0 to 65535, not ${value.scale}`);
    }
    this.u8(5).i64(BigInt.asIntN(64, value.unscaled)).i64(value.unscaled >> 64n).u16(value.scale);
  }

  private moment(value: Moment): void {
    const bits = value.kind === "date" ? 32 : 64;
    if (BigInt.asIntN(bits, value.value) !== value.value) {
      throw new SqlError("22008", `${value.kind} out of range: ${value.value}`);
    }
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
      this.u8(4).f64(value);
    } else if (typeof value === "string") {
      this.u8(6).sized(encode(value));
    } else if (value instanceof Uint8Array) {
      this.u8(7).sized(value);
    } else if (value instanceof Decimal) {
      this.decimal(value);
    } else if (value instanceof Moment) {
      this.moment(value);
    } else if (value instanceof Uuid) {
      if (value.bytes.length !== 16) throw new SqlError("22P03", `a UUID has 16 bytes, not ${value.bytes.length}`);
      this.u8(11).bytes(value.bytes);
    } else if (value instanceof Literal) {
      this.u8(12).sized(encode(value.text));
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

  /** Returns the bytes, up to the next write. */
  all(): Uint8Array {
    return this.data.subarray(0, this.length);
  }

  /** Returns the bytes, up to the next write. They have to fit the area. */
  take(what: string): Uint8Array {
    if (this.length > AREA_BYTES) throw new SqlError("54000", `${what} of the routine exceeds 1024 kB`);
    return this.all();
  }

  /** Writes the number and the width of rows, at a place before the end. */
  patch(at: number, count: number, width: number): this {
    this.view.setUint32(at, count, true);
    this.view.setUint16(at + 4, width, true);
    return this;
  }

  /** Removes bytes. */
  cut(begin: number, end: number): void {
    this.data.copyWithin(begin, end, this.length);
    this.length -= end - begin;
  }
}

/** Reader of a message. In WebAssembly, the next call replaces what it reads. */
export class Reader {
  private at = 0;

  constructor(
    private data: DataView,
    private end: number,
  ) {}

  private skip(bytes: number): number {
    const at = this.at;
    if (this.end < at + bytes) throw new SqlError("39000", "the server broke the protocol");
    this.at += bytes;
    return at;
  }

  u8(): number {
    return this.data.getUint8(this.skip(1));
  }

  u16(): number {
    return this.data.getUint16(this.skip(2), true);
  }

  u32(): number {
    return this.data.getUint32(this.skip(4), true);
  }

  i64(): bigint {
    return this.data.getBigInt64(this.skip(8), true);
  }

  private bytes(length: number): Uint8Array {
    const at = this.skip(length) + this.data.byteOffset;
    return new Uint8Array(this.data.buffer.slice(at, at + length));
  }

  private text(): string {
    const length = this.u32();
    return decode(this.data, this.skip(length), length);
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
        return this.data.getFloat64(this.skip(8), true);
      case 5: {
        const low = BigInt.asUintN(64, this.i64());
        const high = this.i64();
        return new Decimal((high << 64n) | low, this.u16());
      }
      case 6:
        return this.text();
      case 7:
        return this.bytes(this.u32());
      case 8:
        return new Moment("date", BigInt(this.data.getInt32(this.skip(4), true)));
      case 9:
        return new Moment("time", this.i64());
      case 10:
        return new Moment("timestamp", this.i64());
      case 11:
        return new Uuid(this.bytes(16));
      case 12:
        return new Literal(this.text());
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
