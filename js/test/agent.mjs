// A model that reads one page after the other, for agents of the AI SDK and of Mastra, and what must hold of its prompts.

import assert from "node:assert/strict";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Return the content and the end of the model's next answer: a call for the next page, or its last words. */
export function nextAnswer(steps, step) {
  if (step > steps) return { content: [{ type: "text", text: `read ${steps} pages` }], finish: "stop" };
  const input = JSON.stringify({ page: step });
  return { content: [{ type: "tool-call", toolCallId: `call_${step}`, toolName: "read_page", input }], finish: "tool-calls" };
}

/** A language model (V4, or another version) that calls `read_page` in each step and records its prompts. */
export function pageReader(Mock, steps, { prompts = [], finish = (unified) => ({ unified, raw: unified }), used = usage } = {}) {
  let step = 0;
  const answer = (prompt) => {
    prompts.push(structuredClone(prompt));
    step += 1;
    const { content, finish: end } = nextAnswer(steps, step);
    return { content, finishReason: finish(end), usage: used, warnings: [] };
  };
  const model = new Mock({
    modelId: "page-reader",
    doGenerate: async ({ prompt }) => answer(prompt),
    doStream: async ({ prompt }) => {
      const { content, finishReason } = answer(prompt);
      const parts = content.flatMap((part) =>
        part.type === "text"
          ? [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: part.text }, { type: "text-end", id: "t" }]
          : [part],
      );
      const chunks = [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", finishReason, usage: used }];
      return { stream: new ReadableStream({
        start(controller) {
          chunks.forEach((chunk) => controller.enqueue(chunk));
          controller.close();
        },
      }) };
    },
  });
  return { model, prompts };
}

/** Check the prompts of a run: legal, with the task and the newest result whole, shorter at the end, mostly appended to. */
export function check(prompts, { steps, most, task }) {
  assert.equal(prompts.length, steps + 1);
  let moved = 0;
  for (const [number, prompt] of prompts.entries()) {
    assertPaired(prompt);
    assert.equal(textOf(prompt.find((message) => message.role === "user")), task);
    if (number > 0) assert.deepEqual(prompt.at(-1).content.at(-1).output, { type: "text", value: pageText(prompt, number) });
    assert.ok(JSON.stringify(prompt).length < most, `prompt ${number} has ${JSON.stringify(prompt).length} characters`);
    const before = prompts[number - 1];
    if (before && JSON.stringify(prompt.slice(0, before.length)) !== JSON.stringify(before)) moved += 1;
  }
  assert.ok(moved >= 1, "nothing was compressed");
  assert.ok(moved <= steps / 3, `the prefix moved ${moved} times in ${steps} steps`);
}

function pageText(prompt, number) {
  const output = prompt.at(-1).content.at(-1).output;
  assert.match(output.value, new RegExp(`^page ${number} of the log\\n`));
  assert.match(output.value, new RegExp(`\\nnext page: ${number + 1}$`));
  assert.equal(output.value.split("\n").length, 42);
  return output.value;
}

function textOf(message) {
  return typeof message.content === "string" ? message.content : message.content.map((part) => part.text ?? "").join("");
}

/** Check that each call has its result in the next message, and each result its call in the one before. */
export function assertPaired(prompt) {
  for (const [place, message] of prompt.entries()) {
    const ids = (one, type) => (Array.isArray(one?.content) ? one.content : []).filter((part) => part.type === type).map((part) => part.toolCallId);
    if (message.role === "assistant") assert.deepEqual(ids(prompt[place + 1], "tool-result").sort(), ids(message, "tool-call").sort());
    if (message.role === "tool") assert.equal(prompt[place - 1]?.role, "assistant");
  }
}
