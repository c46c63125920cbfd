// `focusctx serve` in a process of its own, and a loopback server that answers as a test wants.

import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const python = process.env.FOCUSCTX_PYTHON ?? `${root}/.venv/bin/python`;

/** Start the proxy, and stop it after the test. */
export async function serve(t, { options = [], env = {} } = {}) {
  const args = ["-m", "focusctx", "serve", "--listen", "127.0.0.1:0", "--upstream", "none=http://127.0.0.1:9"];
  const process_ = spawn(python, [...args, "--store", "memory", ...options], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  t.after(() => process_.kill());
  let said = "";
  return new Promise((resolve, reject) => {
    process_.on("exit", (code) => reject(new Error(`the proxy ended with ${code}: ${said}`)));
    process_.stderr.on("data", (data) => {
      said += data;
      const found = /listens on (\S+) [\s\S]*, store /.exec(said);
      if (found) resolve(found[1]);
    });
  });
}

/** Start a server for a test, and return its address. */
export async function listen(t, answer) {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

/** Return the body of a request. */
export async function bodyOf(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

/** Long output of a tool, different for each page. */
export function page(number) {
  const lines = Array.from({ length: 40 }, (_, line) => `${number}.${line}: nothing to report from hall ${number * 7 + line}`);
  return [`page ${number} of the log`, ...lines, `next page: ${number + 1}`].join("\n");
}
