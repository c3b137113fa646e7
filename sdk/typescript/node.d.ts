// Types of the few parts of Node.js that the library uses, and of the console that every level has. A project that uses
// more has `@types/node` in their place.

declare class TextEncoder {
  encode(text: string): Uint8Array;
}

declare class TextDecoder {
  constructor(encoding: string, options: { ignoreBOM: boolean });
  decode(data: Uint8Array): string;
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

// In WebAssembly these show nothing.
declare const console: {
  debug(...parts: unknown[]): void;
  error(...parts: unknown[]): void;
  info(...parts: unknown[]): void;
  log(...parts: unknown[]): void;
  warn(...parts: unknown[]): void;
};
