// The real OpenCode does a long task with the plugin, against a scripted provider and a real proxy.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { bodyOf, listen, page, serve } from "./served.mjs";

const require = createRequire(import.meta.url);
const plugin = dirname(require.resolve("focusctx/package.json"));
const opencode = join(dirname(require.resolve("opencode-ai/package.json")), "bin", "opencode.exe");

/** A provider that has the model read one file after the other, and records the histories it is sent. */
async function provider(t, folder, steps) {
  const histories = [];
  const url = await listen(t, async (request, response) => {
    const { messages, tools } = JSON.parse(await bodyOf(request));
    response.writeHead(200, { "content-type": "text/event-stream" });
    const say = (delta, finish_reason = null) =>
      response.write(`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
    if (tools?.length) {
      histories.push(messages);
      const step = histories.length;
      if (step <= steps) {
        const input = JSON.stringify({ filePath: join(folder, `page-${step}.txt`) });
        say({ role: "assistant", tool_calls: [{ index: 0, id: `call_${step}`, type: "function", function: { name: "read", arguments: input } }] });
        say({}, "tool_calls");
      } else {
        say({ role: "assistant", content: `read ${steps} pages` });
        say({}, "stop");
      }
    } else {
      say({ role: "assistant", content: "A title" });
      say({}, "stop");
    }
    response.end("data: [DONE]\n\n");
  });
  return { url, histories };
}

/** Run OpenCode in a folder of its own, which is also its home; return what it printed. */
async function run(t, { url, steps }) {
  const folder = await mkdtemp(join(tmpdir(), "focusctx-opencode-"));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const { url: baseURL, histories } = await provider(t, folder, steps);
  for (let number = 1; number <= steps; number++) await writeFile(join(folder, `page-${number}.txt`), page(number));
  const models = { m: { name: "m", tool_call: true, limit: { context: 200_000, output: 4096 } } };
  const config = {
    provider: { scripted: { npm: "@ai-sdk/openai-compatible", options: { baseURL: `${baseURL}/v1`, apiKey: "k" }, models } },
    model: "scripted/m",
    small_model: "scripted/m",
    plugin: [[pathToFileURL(plugin).href, { url, budget: 3000 }]],
    permission: { "*": "allow" },
    autoupdate: false,
    share: "disabled",
  };
  await writeFile(join(folder, "opencode.json"), JSON.stringify(config));
  const home = { HOME: folder, XDG_CONFIG_HOME: join(folder, "config"), XDG_DATA_HOME: join(folder, "data"), XDG_CACHE_HOME: join(folder, "cache"), XDG_STATE_HOME: join(folder, "state") };
  const quiet = { OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1", OPENCODE_DISABLE_DEFAULT_PLUGINS: "1" };
  const process_ = spawn(opencode, ["run", "--print-logs", "--log-level", "WARN", "Read the log, page by page."], {
    cwd: folder,
    env: { PATH: process.env.PATH, ...home, ...quiet },
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.after(() => process_.kill());
  let printed = "";
  for (const stream of [process_.stdout, process_.stderr]) stream.on("data", (data) => (printed += data));
  await new Promise((resolve) => process_.on("exit", resolve));
  return { histories, printed };
}

function assertLegal(messages) {
  for (const [place, message] of messages.entries()) {
    const asked = (message.tool_calls ?? []).map((call) => call.id);
    const answers = messages.slice(place + 1, place + 1 + asked.length).map((answer) => answer.tool_call_id);
    assert.deepEqual(answers, asked);
    if (message.role === "tool") assert.ok(messages[place - 1].tool_calls || messages[place - 1].role === "tool");
  }
}

test("OpenCode's histories go up smaller", { timeout: 120_000 }, async (t) => {
  const url = await serve(t);
  const steps = 12;
  const { histories, printed } = await run(t, { url, steps });
  assert.match(printed, new RegExp(`read ${steps} pages`), printed);
  assert.equal(histories.length, steps + 1);
  let moved = 0;
  for (const [number, history] of histories.entries()) {
    assertLegal(history);
    assert.ok(history.some((message) => message.role === "user" && JSON.stringify(message.content).includes("Read the log, page by page.")));
    if (number > 0) assert.match(history.at(-1).content, new RegExp(`page ${number} of the log[^]*next page: ${number + 1}`));
    const before = histories[number - 1];
    if (before && JSON.stringify(history.slice(0, before.length)) !== JSON.stringify(before)) moved += 1;
  }
  assert.ok(moved >= 1, "nothing was compressed");
  assert.ok(moved <= steps / 2, `the prefix moved ${moved} times`);
  const sizes = histories.map((history) => JSON.stringify(history.filter(({ role }) => role !== "system")).length);
  assert.ok(sizes.at(-1) < (steps * page(1).length) / 2, `${sizes}`);
});

test("OpenCode goes on when the proxy is down", { timeout: 120_000 }, async (t) => {
  const steps = 3;
  const { histories, printed } = await run(t, { url: "http://127.0.0.1:9", steps });
  assert.match(printed, new RegExp(`read ${steps} pages`), printed);
  assert.equal(histories.at(-1).filter(({ role }) => role === "tool").length, steps);
  assert.equal(printed.split("messages go on uncompressed").length, 2, printed);
});
