// The AI SDK's own loops, with the middleware and with `prepareStep`, against a real proxy.

import assert from "node:assert/strict";
import { test } from "node:test";

import { generateText, isStepCount, jsonSchema, modelMessageSchema, streamText, tool, ToolLoopAgent, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { compress } from "focusctx";
import { focusMiddleware, focusPrepareStep } from "focusctx/ai-sdk";

import { check, pageReader } from "./agent.mjs";
import { bodyOf, listen, page, serve } from "./served.mjs";

const STEPS = 40;
const BUDGET = 4000;
const MOST = 40_000; // characters; the whole history has more than 80,000
const task = "Read the log, page by page.";
const inputSchema = jsonSchema({ type: "object", properties: { page: { type: "number" } }, required: ["page"] });
const tools = { read_page: tool({ description: "Read a page.", inputSchema, execute: async (input) => page(input.page) }) };
const stopWhen = isStepCount(STEPS + 1);

function wrapped(url, reader, options = {}) {
  return wrapLanguageModel({ model: reader.model, middleware: focusMiddleware({ url, budget: BUDGET, ...options }) });
}

test("generateText through the middleware", async (t) => {
  const url = await serve(t);
  const reader = pageReader(MockLanguageModelV4, STEPS);
  const { text, steps } = await generateText({ model: wrapped(url, reader), prompt: task, tools, stopWhen });
  assert.equal(text, `read ${STEPS} pages`);
  assert.equal(steps.length, STEPS + 1);
  check(reader.prompts, { steps: STEPS, most: MOST, task });
});

test("streamText through the middleware, with a name for the conversation", async (t) => {
  const url = await serve(t);
  const reader = pageReader(MockLanguageModelV4, STEPS);
  const providerOptions = { focusctx: { conversation: "chat-1" } };
  const result = streamText({ model: wrapped(url, reader), prompt: task, tools, stopWhen, providerOptions });
  assert.equal(await result.text, `read ${STEPS} pages`);
  check(reader.prompts, { steps: STEPS, most: MOST, task });
});

/** A server before the proxy that records the histories it is sent. */
async function recorded(t, proxy) {
  const histories = [];
  const url = await listen(t, async (request, response) => {
    const body = await bodyOf(request);
    histories.push(JSON.parse(body).messages);
    const answer = await fetch(proxy + request.url, { method: "POST", body });
    response.writeHead(answer.status).end(await answer.text());
  });
  return { url, histories };
}

test("generateText and an agent with prepareStep", async (t) => {
  const { url, histories } = await recorded(t, await serve(t));
  for (const run of [
    (model, prepareStep) => generateText({ model, prompt: task, tools, stopWhen, prepareStep }),
    (model, prepareStep) => new ToolLoopAgent({ model, tools, stopWhen, prepareStep }).generate({ prompt: task }),
  ]) {
    const reader = pageReader(MockLanguageModelV4, STEPS);
    const result = await run(reader.model, focusPrepareStep({ url, budget: BUDGET }));
    assert.equal(result.text, `read ${STEPS} pages`);
    check(reader.prompts, { steps: STEPS, most: MOST, task });
    // The SDK goes on from the shorter messages; the proxy must get the whole ones all the same.
    for (const [step, history] of histories.splice(0).entries()) {
      assert.equal(history.length, 1 + 2 * step);
      for (let number = 1; number <= step; number++) {
        assert.deepEqual(history[2 * number].content[0].output, { type: "text", value: page(number) });
      }
    }
  }
});

test("the middleware leaves the prompts as they are when the proxy is down, and warns once", async () => {
  const warnings = [];
  const reader = pageReader(MockLanguageModelV4, 3);
  const model = wrapped("http://127.0.0.1:9", reader, { onWarning: (warning) => warnings.push(warning) });
  const { text } = await generateText({ model, prompt: task, tools, stopWhen });
  assert.equal(text, "read 3 pages");
  assert.equal(reader.prompts.at(-1).length, 7);
  assert.equal(warnings.length, 1);
});

test("a cancelled call ends as it does without the middleware", async () => {
  const reader = pageReader(MockLanguageModelV4, 3);
  const model = wrapped("http://127.0.0.1:9", reader);
  const call = generateText({ model, prompt: task, tools, stopWhen, abortSignal: AbortSignal.abort() });
  await assert.rejects(call, { name: "AbortError" });
});

test("compressed ModelMessages are what the SDK's own schema takes", async (t) => {
  const url = await serve(t);
  const options = { providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } };
  const messages = [{ role: "system", content: "You help.", ...options }, { role: "user", content: task }];
  const outputs = [
    (number) => ({ type: "text", value: page(number) }),
    (number) => ({ type: "json", value: { lines: page(number).split("\n") } }),
    (number) => ({ type: "error-text", value: `Error: ${page(number)}` }),
    (number) => ({ type: "content", value: [{ type: "text", text: page(number) }, { type: "file-data", data: "aGk=", mediaType: "image/png" }] }),
  ];
  for (let number = 1; number <= 20; number++) {
    const calls = [2 * number, 2 * number + 1].map((id) => ({ toolCallId: `c${id}`, toolName: "read_page" }));
    messages.push({ role: "assistant", content: [{ type: "text", text: "Next.", ...options }, ...calls.map((call) => ({ type: "tool-call", ...call, input: { page: number } }))] });
    messages.push({ role: "tool", content: calls.map((call, place) => ({ type: "tool-result", ...call, output: outputs[(number + place) % 4](number) })) });
  }
  const { messages: view, result } = await compress({ url, messages, budget: BUDGET });
  assert.equal(result.compressed, true);
  assert.ok(result.tokens_after < result.tokens_before / 2);
  for (const message of view) assert.deepEqual(modelMessageSchema.safeParse(message).error, undefined);
  assert.equal(view[0], messages[0]);
  assert.equal(view.at(-1), messages.at(-1));
});
