'use strict';
// Overtake, an in-memory database that speaks PostgreSQL's protocol, for tests and experiments.
//
//   const { dsn, close } = await require('overtake').serve();

const { spawn } = require('node:child_process');
const path = require('node:path');

/** Path of the server's binary, which is part of this package. */
const binary = path.join(__dirname, 'bin', 'overtake');

/**
 * Starts a server on a free port of 127.0.0.1 and waits until clients can connect.
 *
 * `settings` are Overtake's, by name: { 'max_connections': 10 }. `args` are further arguments of `overtake serve`.
 * The server also ends with this process, as far as node tells of its end.
 */
function serve({ settings = {}, args = [], timeout = 30_000, grace = 10_000 } = {}) {
  // Beside programs that keep all processors busy, as tests do, long queries in the idle class would stand still.
  const all = { 'overtake.analytics_threads': 'ordinary', ...settings };
  const set = Object.entries(all).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
  const child = spawn(binary, ['serve', '--listen', '127.0.0.1:0', ...set, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  const ended = new Promise((resolve) => {
    child.once('close', () => {
      process.removeListener('exit', kill);
      resolve();
    });
  });
  const close = async () => {
    child.ref();
    child.kill('SIGTERM');
    const late = setTimeout(kill, grace);
    await ended;
    clearTimeout(late);
  };
  return new Promise((resolve, reject) => {
    let [out, log] = ['', ''];
    const fail = (why) => {
      clearTimeout(late);
      kill();
      reject(new Error(`overtake ${why}: ${log.trim()}`));
    };
    const late = setTimeout(() => fail(`did not listen within ${timeout} ms`), timeout);
    child.once('error', (error) => fail(`cannot be started: ${error.message}`));
    child.once('close', () => fail('ended before it listened'));
    child.stderr.on('data', (part) => {
      log = (log + part).slice(-2000);
    });
    child.stdout.on('data', (part) => {
      out += part;
      const found = /psql "(postgresql:\/\/[^"]+)"/.exec(out);
      if (found) {
        clearTimeout(late);
        out = '';
        // A program that forgets `close` ends all the same, and the server with it.
        [child, child.stdout, child.stderr].forEach((part) => part.unref());
        resolve({ dsn: found[1], close, [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]: close });
      }
    });
  });
}

module.exports = { binary, serve };
