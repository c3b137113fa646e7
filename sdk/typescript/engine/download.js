// Downloads a file: node -e "$(cat download.js)" URL SHA256 FILE. It fails if the file has another sum.
const { createHash } = require("node:crypto");
const { writeFileSync } = require("node:fs");

const [url, expected, file] = process.argv.slice(1);

async function download() {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
  const bytes = Buffer.from(await answer.arrayBuffer());
  const sum = createHash("sha256").update(bytes).digest("hex");
  if (sum !== expected) throw new Error(`${url} has the SHA-256 ${sum}, not ${expected}`);
  writeFileSync(file, bytes);
}

download().catch((error) => {
  console.error(`${error.message}${error.cause ? `: ${error.cause.message}` : ""}`);
  process.exitCode = 1;
});
