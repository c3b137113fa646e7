// Ways to the database: the memory of a WebAssembly module, or a channel between processes.

import { type WasmHost, Writer } from "./wire";

declare const require: (name: string) => unknown;

/** The server has closed the channel. */
export class Closed extends Error {}

/** Returns the files of Node.js. */
export function files(): typeof import("node:fs") {
  return require("node:fs") as typeof import("node:fs");
}

export const [INVOKE, ANSWER, READY, CALL, RETURN, FAIL] = [1, 2, 4, 5, 6, 7];

export interface Message {
  readonly kind: number;
  readonly entry: number;
  readonly data: DataView;
  readonly length: number;
}

/** Way to the database. */
export interface Exchange {
  /** Makes calls. Returns their answers, or the reason why the invocation must end. */
  exchange(calls: Uint8Array): Message;
}

/** Memory of the WebAssembly module. An error of a call does not come back: it ends the code. */
export class WasmChannel implements Exchange {
  private area: Uint8Array;
  private view: DataView;

  constructor(private host: WasmHost) {
    this.area = new Uint8Array(host.area);
    this.view = new DataView(host.area);
  }

  exchange(calls: Uint8Array): Message {
    this.area.set(calls);
    return this.message(ANSWER, 0, this.host.call(calls.length));
  }

  message(kind: number, entry: number, length: number): Message {
    return { kind, entry, data: this.view, length };
  }

  /** Puts a result into the area. Returns its length. */
  put(result: Uint8Array): number {
    this.area.set(result);
    return result.length;
  }
}

/** Channel between processes. */
export abstract class Channel implements Exchange {
  abstract send(kind: number, data: Uint8Array): void;
  abstract receive(): Message;

  exchange(calls: Uint8Array): Message {
    this.send(CALL, calls);
    return this.receive();
  }
}

let paused: Int32Array | null = null;

function pause(milliseconds: number): void {
  paused ??= new Int32Array(new SharedArrayBuffer(4));
  Atomics.wait(paused, 0, 0, milliseconds);
}

/** Socket that the server has opened. */
class SocketChannel extends Channel {
  private fs = files();

  constructor(private descriptor: number) {
    super();
  }

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
    for (let at = 0; at < bytes.length; ) at += this.retried(() => this.fs.writeSync(this.descriptor, bytes, at));
  }

  private read(length: number): DataView {
    const data = new Uint8Array(length);
    for (let at = 0; at < length; ) {
      const count = this.retried(() => this.fs.readSync(this.descriptor, data, at, length - at, null));
      if (count === 0) throw new Closed();
      at += count;
    }
    return new DataView(data.buffer);
  }

  receive(): Message {
    const head = this.read(12);
    const [kind, entry, length] = [0, 4, 8].map((at) => head.getUint32(at, true)) as [number, number, number];
    return { kind, entry, data: this.read(length), length };
  }
}

/** Offsets in the shared memory. */
const [TURN, MESSAGE, CONTENTS] = [64, 80, 96];

/** Looks at the shared memory without a pause. */
const LOOKS = 200;

/**
 * First and longest pause between two looks, in milliseconds. Each is a quarter longer than the one before, so a
 * message waits for little of the time that has passed before it, and an idle worker hardly runs.
 */
const [PAUSE_MIN, PAUSE_MAX] = [0.1, 5];

/** Memory that the server has mapped, read and written as a file. Only the side that has the turn touches it. */
class SharedChannel extends Channel {
  private fs = files();
  private word = new DataView(new ArrayBuffer(4));

  constructor(private descriptor: number) {
    super();
    if (this.u32(0) !== 2) throw new Error("the shared memory has another layout than 2, that of this library");
  }

  private read(offset: number, into: DataView): DataView {
    this.fs.readSync(this.descriptor, new Uint8Array(into.buffer), 0, into.byteLength, offset);
    return into;
  }

  private u32(offset: number): number {
    return this.read(offset, this.word).getUint32(0, true);
  }

  send(kind: number, data: Uint8Array): void {
    if (data.length) this.fs.writeSync(this.descriptor, data, 0, data.length, CONTENTS);
    this.fs.writeSync(this.descriptor, new Writer().u32(kind).u32(0).u32(data.length).all(), 0, 12, MESSAGE);
    this.fs.writeSync(this.descriptor, new Writer().u32(0).all(), 0, 4, TURN);
  }

  receive(): Message {
    let [looks, rest] = [0, PAUSE_MIN];
    while (this.u32(TURN) !== 1) {
      if (looks < LOOKS) {
        looks++;
        continue;
      }
      pause(rest);
      rest = Math.min(rest * 1.25, PAUSE_MAX);
    }
    const data = new DataView(new ArrayBuffer(this.u32(MESSAGE + 8)));
    if (data.byteLength) this.read(CONTENTS, data);
    return { kind: this.u32(MESSAGE), entry: this.u32(MESSAGE + 4), data, length: data.byteLength };
  }
}

export function open(): Channel {
  const [name, descriptor] = (process.env.OVERTAKE_CHANNEL ?? "").split(":");
  if (name === "unix_socket") return new SocketChannel(Number(descriptor));
  if (name === "shared_memory") return new SharedChannel(Number(descriptor));
  console.error("OVERTAKE_CHANNEL must be shared_memory:FD or unix_socket:FD; Overtake starts this program");
  process.exit(1);
}
