// Types of the few parts of Node.js that the library uses. A project that uses more has `@types/node` in their place.

declare const Buffer: {
  alloc(length: number): Buffer;
  concat(parts: Uint8Array[], length: number): Buffer;
  from(data: string | Uint8Array): Buffer;
};

interface Buffer extends Uint8Array {
  subarray(begin?: number, end?: number): Buffer;
  toString(): string;
  readUInt8(at: number): number;
  readUInt16LE(at: number): number;
  readUInt32LE(at: number): number;
  readInt32LE(at: number): number;
  readBigInt64LE(at: number): bigint;
  readDoubleLE(at: number): number;
  writeUInt8(value: number, at: number): number;
  writeUInt16LE(value: number, at: number): number;
  writeUInt32LE(value: number, at: number): number;
  writeBigInt64LE(value: bigint, at: number): number;
  writeDoubleLE(value: number, at: number): number;
}

declare module "node:fs" {
  export function readSync(fd: number, data: Uint8Array, at: number, length: number, position: number | null): number;
  export function writeSync(fd: number, data: Uint8Array, at: number, length?: number, position?: number): number;
}

declare const process: {
  readonly argv: string[];
  readonly env: Record<string, string | undefined>;
  exit(code: number): never;
};

declare const console: { error(text: string): void };
