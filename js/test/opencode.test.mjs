// The real OpenCode does a long task with the plugin, against a scripted provider and a real proxy.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import entry from "focusctx/server";

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

/** A session as OpenCode holds it: calls in parallel, an image, a failure, an interrupted call. */
function stored(steps) {
  const info = (id, role) => ({ id: `msg_${id}`, sessionID: "ses_1", role, time: { created: id } });
  const messages = [{ info: info(0, "user"), parts: [{ id: "prt_0", type: "text", text: "Read the log." }] }];
  for (let step = 1; step <= steps; step++) {
    const id = (part) => `prt_${step}_${part}`;
    const tool = (part, state) => ({ id: id(part), type: "tool", callID: `call_${step}_${part}`, tool: "read", state });
    const input = { filePath: `page-${step}.txt` };
    const done = { status: "completed", input, output: page(step), title: "", metadata: {}, time: { start: 1, end: 2 } };
    const image = { ...done, attachments: [{ id: "prt_x", type: "file", mime: "image/png", url: "data:image/png;base64,AA==" }] };
    const failed = { status: "error", input, error: `Error: ${page(step)}`, time: { start: 1, end: 2 } };
    messages.push({
      info: info(step, "assistant"),
      parts: [
        { id: id("start"), type: "step-start" },
        { id: id("text"), type: "text", text: "I read on." },
        tool("a", done),
        tool("b", step % 3 === 0 ? image : done),
        tool("c", step % 4 === 0 ? failed : step % 5 === 0 ? { status: "running", input, time: { start: 1 } } : done),
        { id: id("end"), type: "step-finish", reason: "tool-calls", cost: 0, tokens: {} },
      ],
    });
  }
  return messages;
}

async function hooks(url) {
  const logged = [];
  const client = { app: { log: async ({ body }) => logged.push(body.message) } };
  return { ...(await entry.server({ client }, { url, budget: 6000 })), logged };
}

test("the plugin shortens copies, and puts every kind of part back in its place", async (t) => {
  const plugin = await hooks(await serve(t));
  const messages = stored(12);
  const originals = [...messages];
  const before = structuredClone(messages);
  await plugin["experimental.chat.messages.transform"]({}, { messages });
  assert.deepEqual(originals, before, "what OpenCode stores does not change");
  assert.deepEqual(plugin.logged, []);
  assert.ok(JSON.stringify(messages).length < JSON.stringify(before).length / 2);
  assert.equal(messages[0], originals[0]);
  assert.equal(messages.at(-1), originals.at(-1));
  let shortened = 0;
  let marks = 0;
  for (const { info, parts } of messages) {
    const source = originals.find((original) => original.info === info);
    assert.ok(source, "each message is one of the session's");
    for (const part of parts) {
      const old = source.parts.find(({ id }) => id === part.id);
      if (!old) {
        assert.match(part.text, /^\[… \d+ more calls? left out/);
        marks += 1;
      } else if (part.type === "tool") {
        assert.equal(part.state.status, old.state.status);
        assert.equal(part.callID, old.callID);
        shortened += part.state.output !== old.state.output;
        if (part.state.output !== old.state.output) assert.equal(part.state.attachments, undefined);
      } else assert.deepEqual(part, old);
    }
  }
  assert.ok(shortened > 0 && marks > 0, `${shortened} results shortened, ${marks} marks`);
});

test("a summary is made of the whole session", async (t) => {
  const plugin = await hooks(await serve(t));
  const messages = stored(12);
  await plugin["experimental.session.compacting"]({ sessionID: "ses_1" }, { context: [] });
  await plugin["experimental.chat.messages.transform"]({}, { messages });
  assert.deepEqual(messages, stored(12));
  await plugin["experimental.chat.messages.transform"]({}, { messages });
  assert.notDeepEqual(messages, stored(12));
});

test("an answer that has lost OpenCode's ids changes nothing and is logged", async (t) => {
  const plugin = await hooks(await listen(t, async (request, response) => {
    const { messages } = JSON.parse(await bodyOf(request));
    delete messages[0].providerOptions;
    response.end(JSON.stringify({ messages, result: { failure: null } }));
  }));
  const messages = stored(2);
  await plugin["experimental.chat.messages.transform"]({}, { messages });
  assert.deepEqual(messages, stored(2));
  assert.equal(plugin.logged.length, 1);
});
