// Not run: the compiler checks that the package fits the types of the real ones.

import { Agent } from "@mastra/core/agent";
import type { Processor } from "@mastra/core/processors";
import type { Plugin, PluginModule } from "@opencode-ai/plugin";
import { generateText, ToolLoopAgent, wrapLanguageModel, type LanguageModel, type ModelMessage, type ToolSet } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { compress, type Compressed, type Result } from "focusctx";
import { focusMiddleware, focusPrepareStep } from "focusctx/ai-sdk";
import { FocusProcessor } from "focusctx/mastra";
import entry, { FocusPlugin } from "focusctx/opencode";

declare const messages: ModelMessage[];
declare const tools: ToolSet;

export const compressed: Compressed<ModelMessage> = await compress({ messages, format: "ai_sdk", conversation: "id" });
export const result: Result | undefined = compressed.result;

export const model: LanguageModel = wrapLanguageModel({
  model: new MockLanguageModelV4(),
  middleware: focusMiddleware({ budget: 20_000 }),
});
export const generated = await generateText({ model, messages, tools, prepareStep: focusPrepareStep() });
export const agent = new ToolLoopAgent({ model, tools, prepareStep: focusPrepareStep({ budget: 20_000, target: null }) });

export const processor: Processor = new FocusProcessor({ conversation: () => "thread" });
export const mastra = new Agent({
  id: "a",
  name: "a",
  instructions: "",
  model: "openai/gpt-5.5",
  inputProcessors: [new FocusProcessor()],
});

export const plugin: Plugin = FocusPlugin;
export const module: PluginModule = entry;

// @ts-expect-error: a typing mistake in an option
focusMiddleware({ buget: 3 });
// @ts-expect-error: an unknown format
await compress({ messages, format: "morse" });
