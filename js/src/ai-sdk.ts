/** Vercel's AI SDK: a middleware for language models, and a `prepareStep`. Use one of them, not both. */

import { compress, type FocusOptions } from "./index.js";

/** What the SDK passes to `transformParams`, in any of its versions. */
interface Params {
  prompt: object[];
  abortSignal?: AbortSignal | undefined;
  providerOptions?: Record<string, Record<string, unknown>> | undefined;
}

export interface FocusMiddleware {
  transformParams<P extends object>(options: { params: P; model?: { modelId?: string } }): Promise<P>;
}

/**
 * A middleware for `wrapLanguageModel`: each prompt is compressed on its way to the model, and the SDK's own messages
 * stay whole. `providerOptions: { focusctx: { conversation: "id" } }` names the conversation of one call.
 */
export function focusMiddleware(options: FocusOptions = {}): FocusMiddleware {
  return {
    async transformParams<P extends object>({ params, model }: { params: P; model?: { modelId?: string } }) {
      const { prompt, abortSignal, providerOptions } = params as unknown as Params;
      const named = providerOptions?.["focusctx"]?.["conversation"];
      const { messages } = await compress({
        conversation: true,
        model: model?.modelId,
        ...options,
        ...(typeof named === "string" ? { conversation: named } : {}),
        messages: prompt,
        format: "ai_sdk",
        details: false,
        signal: abortSignal,
      });
      return { ...params, prompt: messages };
    },
  };
}

export type FocusPrepareStep = <M extends object>(options: {
  messages: M[];
  model?: unknown;
}) => Promise<{ messages: M[] }>;

/**
 * A `prepareStep` for `generateText`, `streamText` and agents. The SDK (from version 7 on) builds the next step on the
 * messages that this one returned; they are taken as the whole history again, so that decisions last.
 */
export function focusPrepareStep(options: FocusOptions = {}): FocusPrepareStep {
  /** For the last message of each view: the view, and the history it stands for. */
  const views = new WeakMap<object, { view: object[]; whole: object[] }>();

  function wholeHistory(messages: object[]): object[] {
    for (let end = messages.length; end > 0; end--) {
      const known = views.get(messages[end - 1] as object);
      if (known && known.view.length === end && known.view.every((message, place) => message === messages[place])) {
        return [...known.whole, ...messages.slice(end)];
      }
    }
    return messages;
  }

  return async <M extends object>({ messages, model }: { messages: M[]; model?: unknown }) => {
    const whole = wholeHistory(messages);
    const compressed = await compress({
      conversation: true,
      model: modelName(model),
      ...options,
      messages: whole,
      format: "ai_sdk",
      details: false,
    });
    const view = compressed.messages;
    const last = view.at(-1);
    if (last) views.set(last, { view, whole });
    return { messages: view as M[] };
  };
}

function modelName(model: unknown): string | undefined {
  if (typeof model === "string") return model;
  const id = (model as { modelId?: unknown } | undefined)?.modelId;
  return typeof id === "string" ? id : undefined;
}
