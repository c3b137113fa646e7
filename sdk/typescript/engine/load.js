// Loads a script into the engine: node -e "$(cat load.js)" ENGINE SCRIPT MEMORY. It writes the engine's memory as it is
// then, and prints the manifest.
const { readFileSync, writeFileSync, writeSync } = require("node:fs");

const [engine, script, file] = process.argv.slice(1);

function refuse() {
  throw new Error("a call of the database outside of an entry");
}

const instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(engine)), { overtake: { call: refuse } });
const { memory, overtake_area, overtake_load, overtake_room } = instance.exports;
const text = readFileSync(script);
const at = overtake_room(text.length);
if (at === 0) throw new Error("the script is too large");
new Uint8Array(memory.buffer).set(text, at);
const length = overtake_load(at, text.length);
const area = Buffer.from(memory.buffer, overtake_area(), 1 << 20);
const told = area.subarray(0, Math.abs(length));
if (length < 0) {
  console.error(told.toString());
  process.exitCode = 1;
} else {
  writeSync(1, told);
  area.fill(0);
  writeFileSync(file, new Uint8Array(memory.buffer));
}
