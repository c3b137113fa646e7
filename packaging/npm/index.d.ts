/** Path of the server's binary, which is part of this package. */
export const binary: string;

export interface Options {
  /** Overtake's settings, by name. */
  settings?: Record<string, string | number>;
  /** Further arguments of `overtake serve`. */
  args?: string[];
  /** Milliseconds within which the server has to listen. */
  timeout?: number;
  /** Milliseconds within which the server has to end after `close`; it is killed then. */
  grace?: number;
}

export interface Server {
  /** A postgresql:// URL. */
  dsn: string;
  /** Stops the server. Its data are gone. */
  close(): Promise<void>;
}

/** Starts a server on a free port of 127.0.0.1 and waits until clients can connect. */
export function serve(options?: Options): Promise<Server>;
