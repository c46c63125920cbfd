// The client: what comes back for good answers, and that nothing ever stops the caller.

import assert from "node:assert/strict";
import { test } from "node:test";

import { compress } from "focusctx";

import { bodyOf, listen, page, serve } from "./served.mjs";

function chat(steps) {
  const messages = [{ role: "system", content: "You help." }, { role: "user", content: "Read the log." }];
  for (let number = 1; number <= steps; number++) {
    const call = { id: `c${number}`, type: "function", function: { name: "read_page", arguments: `{"page": ${number}}` } };
    messages.push({ role: "assistant", content: null, tool_calls: [call] });
    messages.push({ role: "tool", tool_call_id: `c${number}`, content: page(number) });
  }
  return messages;
}

/** Compress, and collect the warnings. */
async function tried(options) {
  const warnings = [];
  const answer = await compress({ messages: chat(2), onWarning: (warning) => warnings.push(warning), ...options });
  return { ...answer, warnings };
}

test("a long history comes back shorter, with the result", async (t) => {
  const url = await serve(t);
  const messages = chat(20);
  const before = structuredClone(messages);
  const { messages: view, result, failure } = await compress({ url, messages, budget: 4000, target: 0.5 });
  assert.equal(failure, undefined);
  assert.deepEqual(messages, before);
  assert.equal(result.compressed, true);
  assert.equal(result.target, 2000);
  assert.ok(result.tokens_after < result.tokens_before / 2);
  assert.deepEqual(result.messages, JSON.parse(JSON.stringify(view)));
  assert.equal(view[0], messages[0]);
  assert.equal(view.at(-1), messages.at(-1));
});

test("a short history comes back as it is, and without details the result is short", async (t) => {
  const url = await serve(t);
  const messages = chat(2);
  const { messages: view, result } = await compress({ url: `${url}/`, messages, details: false });
  view.forEach((message, place) => assert.equal(message, messages[place]));
  assert.equal(result.messages, undefined);
  assert.deepEqual(result.kept, [1, 2]);
});

test("the access token is sent", async (t) => {
  const token = "a token of sixteen";
  const url = await serve(t, { env: { FOCUSCTX_TOKEN: token } });
  assert.equal((await tried({ url, token })).failure, undefined);
  const { failure, warnings } = await tried({ url, token: "another one, wrong" });
  assert.match(failure, /status 403.*token/);
  assert.equal(warnings.length, 1);
});

test("values that JSON cannot hold come back as they were, also in messages that changed", async (t) => {
  const url = await serve(t);
  const picture = new Uint8Array([1, 2, 3]);
  const link = new URL("https://pictures.example/a.png");
  const long = "iVBORw0KGgo".repeat(1000);
  const messages = [
    { role: "user", content: [{ type: "text", text: "Read the log." }, { type: "image", image: picture }] },
    { role: "user", content: [{ type: "file", data: { type: "url", url: link }, mediaType: "image/png" }] },
    { role: "user", content: [{ type: "file", data: long, mediaType: "image/png" }] },
  ];
  for (let number = 1; number <= 20; number++) {
    const call = { toolCallId: `c${number}`, toolName: "read_page" };
    const input = { page: number, when: new Date(0), count: 7n, raw: picture };
    messages.push({ role: "assistant", content: [{ type: "tool-call", ...call, input }] });
    const output = { type: "text", value: page(number) };
    messages.push({ role: "tool", content: [{ type: "tool-result", ...call, output, providerOptions: { x: { link } } }] });
  }
  const { messages: view, result } = await compress({ url, messages, format: "ai_sdk", budget: 8000 });
  assert.equal(result.compressed, true);
  for (const place of [0, 1, 2]) assert.equal(view[place], messages[place]);
  const changed = view.filter((message) => !messages.includes(message));
  assert.ok(changed.length > 0);
  for (const { role, content } of changed) {
    if (role === "tool") assert.equal(content[0].providerOptions.x.link, link);
  }
  for (const message of view.filter(({ role }) => role === "assistant")) {
    const call = message.content.find((part) => part.type === "tool-call");
    assert.equal(call.input.raw, picture);
    assert.equal(call.input.count, 7n);
  }
});

test("long files stay here", async (t) => {
  let seen = "";
  const url = await listen(t, async (request, response) => {
    seen = await bodyOf(request);
    response.end(JSON.stringify({ messages: JSON.parse(seen).messages, result: { failure: null } }));
  });
  const part = { type: "file", data: "A".repeat(100_000), mediaType: "image/png" };
  const messages = [{ role: "user", content: [part] }];
  const { messages: view } = await compress({ url, messages });
  assert.ok(seen.length < 1000);
  assert.equal(view[0], messages[0]);
});

test("a failing draft is told, and the messages come back unchanged", async (t) => {
  const url = await serve(t, { options: ["--draft", "openai:m@http://127.0.0.1:9/v1"], env: { OPENAI_API_KEY: "k" } });
  const messages = chat(20);
  const { messages: view, failure, warnings } = await tried({ url, messages, budget: 2000 });
  view.forEach((message, place) => assert.equal(message, messages[place]));
  assert.equal(view.length, messages.length);
  assert.match(failure, /sketches usable/);
  assert.equal(warnings.length, 1);
});

const rubbish = {
  "not JSON": [200, "<html>hello</html>", /not one of focusctx/],
  "another JSON": [200, '{"choices": []}', /not one of focusctx/],
  "messages that are none": [200, '{"messages": [3], "result": {"failure": null}}', /not one of focusctx/],
  "no messages": [200, '{"messages": [], "result": {"failure": null}}', /does not end with/],
  "other messages": [200, '{"messages": [{"role": "user", "content": "hi"}], "result": {"failure": null}}', /does not end with/],
  "no result": [200, '{"messages": [{}]}', /not one of focusctx/],
  "an error": [500, "oops", /status 500/],
  "an error in words": [400, '{"error": {"message": "unknown field"}}', /status 400: unknown field/],
};

for (const [name, [status, body, reason]] of Object.entries(rubbish)) {
  test(`the answer is ${name}: the messages go on unchanged, with one warning`, async (t) => {
    const url = await listen(t, (_, response) => response.writeHead(status).end(body));
    const messages = chat(2);
    const first = await tried({ url, messages });
    assert.equal(first.messages, messages);
    assert.match(first.failure, reason);
    assert.equal(first.warnings.length, 1);
    assert.match(first.warnings[0], reason);
    assert.deepEqual((await tried({ url, messages })).warnings, []);
  });
}

test("the proxy is down", async () => {
  const messages = chat(2);
  const answer = await tried({ url: "http://127.0.0.1:9", messages });
  assert.equal(answer.messages, messages);
  assert.equal(answer.warnings.length, 1);
  assert.equal((await tried({ url: "no address", messages })).messages, messages);
});

test("the proxy is slow: before its head, and in the middle of its answer", async (t) => {
  const silent = await listen(t, () => undefined);
  const halting = await listen(t, (_, response) => response.writeHead(200).write('{"messages": ['));
  for (const url of [silent, halting]) {
    const messages = chat(2);
    const started = performance.now();
    const answer = await tried({ url, messages, deadline: 300 });
    assert.equal(answer.messages, messages);
    assert.match(answer.failure, /no answer within 300 ms/);
    assert.equal(answer.warnings.length, 1);
    assert.ok(performance.now() - started < 2000);
  }
});

test("the connection breaks in the middle of an answer", async (t) => {
  const url = await listen(t, (_, response) => {
    response.writeHead(200, { "content-length": 1000 }).write('{"messages": [', () => response.destroy());
  });
  const messages = chat(2);
  assert.equal((await tried({ url, messages })).messages, messages);
});

test("after a success the next failure is told again", async (t) => {
  let works = false;
  const url = await listen(t, async (request, response) => {
    const { messages } = JSON.parse(await bodyOf(request));
    response.writeHead(works ? 200 : 500).end(works ? JSON.stringify({ messages, result: { failure: null } }) : "");
  });
  const counts = [];
  for (works of [false, false, true, false]) counts.push((await tried({ url })).warnings.length);
  assert.deepEqual(counts, [1, 0, 0, 1]);
});

test("messages that cannot be written as JSON go on unchanged", async () => {
  const message = { role: "user", content: "x" };
  message.self = message;
  const { messages, failure } = await tried({ messages: [message] });
  assert.equal(messages[0], message);
  assert.match(failure, /circular/i);
});
