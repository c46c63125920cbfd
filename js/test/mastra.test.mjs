// A real agent of Mastra with the input processor, against a real proxy.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { MockLanguageModelV4 } from "ai/test";
import { FocusProcessor } from "focusctx/mastra";
import { z } from "zod";

import { check, pageReader } from "./agent.mjs";
import { page, serve } from "./served.mjs";

const STEPS = 20;
const task = "Read the log, page by page.";
const readPage = createTool({
  id: "read_page",
  description: "Read a page.",
  inputSchema: z.object({ page: z.number() }),
  execute: async (input) => page(input.page),
});

function agentWith(reader, processor) {
  return new Agent({
    id: "reader",
    name: "reader",
    instructions: "You read logs.",
    model: reader.model,
    tools: { read_page: readPage },
    inputProcessors: [processor],
  });
}

test("an agent's prompts are compressed", async (t) => {
  const url = await serve(t);
  const reader = pageReader(MockLanguageModelV4, STEPS);
  const agent = agentWith(reader, new FocusProcessor({ url, budget: 4000 }));
  const { text, steps } = await agent.generate(task, { maxSteps: STEPS + 1 });
  assert.equal(text, `read ${STEPS} pages`);
  assert.equal(steps.length, STEPS + 1);
  check(reader.prompts, { steps: STEPS, most: 40_000, task });
});

test("a stream, with a name for the conversation", async (t) => {
  const url = await serve(t);
  const reader = pageReader(MockLanguageModelV4, STEPS);
  const agent = agentWith(reader, new FocusProcessor({ url, budget: 4000, conversation: () => "thread-1" }));
  const stream = await agent.stream(task, { maxSteps: STEPS + 1 });
  assert.equal(await stream.text, `read ${STEPS} pages`);
  check(reader.prompts, { steps: STEPS, most: 40_000, task });
});

test("an agent whose proxy is down goes on, with one warning", async () => {
  const warnings = [];
  const reader = pageReader(MockLanguageModelV4, 3);
  const processor = new FocusProcessor({ url: "http://127.0.0.1:9", onWarning: (warning) => warnings.push(warning) });
  const { text } = await agentWith(reader, processor).generate(task, { maxSteps: 4 });
  assert.equal(text, "read 3 pages");
  assert.equal(warnings.length, 1);
});
