/** The client: `compress` sends messages to a running `focusctx serve` and returns the messages to send instead. */

import { pack, unpack } from "./pack.js";

export type Format = "chat_completions" | "responses" | "anthropic" | "ai_sdk" | "gemini" | "ollama";

/** Settings that every integration takes. */
export interface FocusOptions {
  /** Address of the proxy. Default: the variable FOCUSCTX_URL, else http://127.0.0.1:8400. */
  url?: string | undefined;
  /** The proxy's access token, if it has one. Default: the variable FOCUSCTX_TOKEN. */
  token?: string | undefined;
  /** Tokens of history above which compression is due. Default: the proxy's. */
  budget?: number | undefined;
  /** Size after compression: a share of the budget up to 1, or tokens. Default: the proxy's. */
  target?: number | null | undefined;
  /** The agent's model, whose prices tell whether compression pays. */
  model?: string | undefined;
  /**
   * Name of the conversation, or true to recognise it by its messages: decisions then last, and the prefix stays in
   * place for the provider's cache. With false, each call stands alone.
   */
  conversation?: string | boolean | undefined;
  /** Milliseconds to wait for the proxy before the messages go on unchanged. Default: 30,000. */
  deadline?: number | undefined;
  /** Called with each new problem. Default: `console.warn`. */
  onWarning?: ((warning: string) => void) | undefined;
}

export interface CompressOptions<M> extends FocusOptions {
  messages: M[];
  /** Format of the messages. Default: recognised by the proxy. */
  format?: Format | undefined;
  /** False leaves the fields of the result out that can be as long as the history. Default: true. */
  details?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

/** The proxy's report: the fields of the Python library's `Result`. */
export interface Result {
  compressed: boolean;
  kept: number[];
  dropped: number[];
  shortened: Record<string, number[]>;
  rescued: number[];
  pinned: number[];
  tokens_before: number;
  tokens_after: number;
  latency: number;
  target: number | null;
  failure: string | null;
  warnings: string[];
  [field: string]: unknown;
}

export interface Compressed<M> {
  /** The messages to send. Those that did not change are the same objects as before. */
  messages: M[];
  /** Undefined if the proxy could not be asked. */
  result?: Result;
  /** Why nothing was compressed although it was due, or why the proxy could not be asked. */
  failure?: string;
}

const DEADLINE = 30_000;
const LONGEST_REASON = 500;

/** Compress messages. Never throws: whatever goes wrong, the messages come back as they are, with one warning. */
export async function compress<M extends object>(options: CompressOptions<M>): Promise<Compressed<M>> {
  const url = addressOf(options);
  try {
    const { messages, result } = await ask(url, options);
    if (result.failure !== null) {
      warn(url, options, result.failure);
      return { messages, result, failure: result.failure };
    }
    lastWarning.delete(url);
    return { messages, result };
  } catch (error) {
    const failure = reasonOf(error, options.deadline ?? DEADLINE);
    if (!options.signal?.aborted) warn(url, options, failure);
    return { messages: options.messages, failure };
  }
}

async function ask<M extends object>(url: string, options: CompressOptions<M>) {
  const { format, budget, target, model, conversation, details } = options;
  const packed = pack(options.messages);
  const fields = JSON.stringify({ format, budget, target, model, conversation, details }).slice(1);
  const token = options.token ?? variable("FOCUSCTX_TOKEN");
  const deadline = AbortSignal.timeout(options.deadline ?? DEADLINE);
  const response = await fetch(`${url}/v1/compress`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(token ? { "x-focusctx-token": token } : {}) },
    body: `{"messages":[${packed.texts.join(",")}]${fields === "}" ? "" : ","}${fields}`,
    redirect: "error",
    signal: options.signal ? AbortSignal.any([options.signal, deadline]) : deadline,
  });
  const answer: unknown = await response.json().catch((error: unknown) => {
    if (error instanceof SyntaxError) return undefined;
    throw error; // the deadline passed, or the connection broke
  });
  if (!response.ok) throw new Error(`status ${response.status}: ${errorIn(answer) ?? "no reason given"}`);
  if (!isAnswer(answer)) throw new Error("the answer is not one of focusctx: is the address right?");
  const messages = unpack(answer.messages, packed, options.messages);
  if (messages.at(-1) !== options.messages.at(-1)) throw new Error("the answer does not end with the last message sent");
  return { messages, result: answer.result };
}

function addressOf(options: FocusOptions): string {
  return (options.url ?? variable("FOCUSCTX_URL") ?? "http://127.0.0.1:8400").replace(/\/+$/, "");
}

/** Return a variable of the environment; browsers and some edge runtimes have none. */
function variable(name: string): string | undefined {
  return (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name] || undefined;
}

function isAnswer(answer: unknown): answer is { messages: object[]; result: Result } {
  if (!isObject(answer)) return false;
  const { messages, result } = answer;
  return (
    Array.isArray(messages) &&
    messages.every(isObject) &&
    isObject(result) &&
    (result["failure"] === null || typeof result["failure"] === "string")
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function errorIn(answer: unknown): string | undefined {
  const error = isObject(answer) ? answer["error"] : undefined;
  const message = isObject(error) ? error["message"] : undefined;
  return typeof message === "string" ? message : undefined;
}

function reasonOf(error: unknown, deadline: number): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return `no answer within ${deadline} ms`;
  const cause = error.cause instanceof Error ? error.cause.message || (error.cause as NodeJS.ErrnoException).code : "";
  return `${error.message}${cause ? ` (${cause})` : ""}`.slice(0, LONGEST_REASON);
}

/** The last warning about each proxy: while it keeps failing in the same way, nothing more is printed. */
const lastWarning = new Map<string, string>();

function warn(url: string, options: FocusOptions, reason: string): void {
  if (lastWarning.get(url) === reason) return;
  lastWarning.set(url, reason);
  (options.onWarning ?? console.warn)(`focusctx (${url}): messages go on uncompressed: ${reason}`);
}
