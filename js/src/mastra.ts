/** Mastra: an input processor. It changes what the model is sent, not what the agent or its memory keeps. */

import { compress, type FocusOptions } from "./index.js";

export interface FocusProcessorOptions extends Omit<FocusOptions, "conversation"> {
  /** Name of the conversation, or a function of the request's context that returns it. Default: recognised. */
  conversation?: string | boolean | ((context: { requestContext?: unknown }) => string | undefined) | undefined;
}

interface Request<P> {
  prompt: P;
  model?: unknown;
  abortSignal?: AbortSignal;
  requestContext?: unknown;
}

/** For `new Agent({ inputProcessors: [new FocusProcessor()] })`. */
export class FocusProcessor {
  readonly id = "focusctx";
  readonly name = "focusctx";
  readonly #options: FocusProcessorOptions;

  constructor(options: FocusProcessorOptions = {}) {
    this.#options = options;
  }

  /** Called with each prompt, after it was made from the agent's messages and before the model gets it. */
  async processLLMRequest<P extends object[]>({ prompt, model, abortSignal, requestContext }: Request<P>) {
    const { conversation = true, ...options } = this.#options;
    const id = (model as { modelId?: unknown } | undefined)?.modelId;
    const { messages } = await compress({
      model: typeof id === "string" ? id : undefined,
      ...options,
      conversation: typeof conversation === "function" ? (conversation({ requestContext }) ?? true) : conversation,
      messages: prompt,
      format: "ai_sdk",
      details: false,
      signal: abortSignal,
    });
    return { prompt: messages as P };
  }
}
