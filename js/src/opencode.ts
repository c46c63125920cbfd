/**
 * OpenCode: a plugin for `experimental.chat.messages.transform`.
 *
 * OpenCode keeps a call and its result in one part. They are sent as messages of the AI SDK, whose parts carry the ids of
 * OpenCode's, and what comes back is put into copies of OpenCode's messages: its own, which it stores, never change.
 */

import { compress, type FocusOptions } from "./index.js";

interface Part {
  id: string;
  type: string;
  [field: string]: unknown;
}

interface Message {
  info: { id: string; sessionID: string; role: string; [field: string]: unknown };
  parts: Part[];
}

interface ToolState {
  status: string;
  input?: unknown;
  output?: string;
  error?: string;
  attachments?: unknown[];
  time?: { compacted?: number };
  [field: string]: unknown;
}

/** A part of an AI SDK message, with the id of the OpenCode part it stands for. */
type SdkPart = { type: string; providerOptions?: { focusctx: { id: string } }; [field: string]: any };
type SdkMessage = { role: string; content: SdkPart[]; providerOptions: { focusctx: { id: string } } };

/** What is used of OpenCode's `PluginInput`. */
interface PluginInput {
  client: { app: { log(entry: { body: { service: string; level: "warn"; message: string } }): Promise<unknown> } };
}

interface Hooks {
  "experimental.session.compacting"(input: { sessionID: string }, output: object): Promise<void>;
  "experimental.chat.messages.transform"(input: object, output: { messages: any[] }): Promise<void>;
}

/** OpenCode calls it once, with the options that stand beside the plugin's name in `opencode.json`. */
export async function FocusPlugin({ client }: PluginInput, options: FocusOptions = {}): Promise<Hooks> {
  const beingSummarised = new Set<string>();
  const onWarning = (message: string) => {
    // Printing would disturb OpenCode's screen. A warning that cannot be logged must not stop it either.
    client.app.log({ body: { service: "focusctx", level: "warn", message } }).catch(() => undefined);
  };
  return {
    async "experimental.session.compacting"({ sessionID }) {
      beingSummarised.add(sessionID);
    },
    async "experimental.chat.messages.transform"(_input, output) {
      const messages = output.messages as Message[];
      const session = messages[0]?.info.sessionID;
      // A summary is made of the whole history: what is left out now could never be found again.
      if (session === undefined || beingSummarised.delete(session)) return;
      try {
        const view = await compressed(messages, { conversation: session, onWarning, ...options });
        messages.splice(0, messages.length, ...view); // OpenCode goes on with the same array
      } catch (error) {
        onWarning(`messages go on uncompressed: ${String(error)}`);
      }
    },
  };
}

export default { id: "focusctx", server: FocusPlugin };

async function compressed(messages: Message[], options: FocusOptions): Promise<Message[]> {
  const sent = messages.flatMap(toSdk);
  const answer = await compress({ ...options, messages: sent, format: "ai_sdk", details: false });
  if (answer.messages === sent) return messages;
  const unchanged = new Set<object>(answer.messages);
  const left = new Map<string, SdkMessage[]>();
  for (const message of answer.messages) {
    const id = message.providerOptions.focusctx.id;
    left.set(id, [...(left.get(id) ?? []), message]);
  }
  const made = new Map<string, SdkMessage[]>();
  for (const message of sent) {
    const id = message.providerOptions.focusctx.id;
    made.set(id, [...(made.get(id) ?? []), message]);
  }
  return messages.flatMap((message) => {
    const before = made.get(message.info.id) ?? [];
    if (before.every((each) => unchanged.has(each))) return [message];
    const after = left.get(message.info.id);
    return after ? [shortened(message, after)] : [];
  });
}

function toSdk({ info, parts }: Message): SdkMessage[] {
  const message = (role: string, content: SdkPart[]): SdkMessage => ({ role, content, providerOptions: named(info.id) });
  if (info.role !== "assistant") return [message("user", parts.flatMap(spoken))];
  const results = parts.filter((part) => part.type === "tool").map(toResult);
  const turn = parts.flatMap((part) => (part.type === "tool" ? [toCall(part)] : spoken(part)));
  if (turn.length === 0) turn.push({ type: "text", text: "" });
  return [message("assistant", turn), ...(results.length > 0 ? [message("tool", results)] : [])];
}

function named(id: string) {
  return { focusctx: { id } };
}

function spoken(part: Part): SdkPart[] {
  if (part.type === "text" && !part["ignored"]) {
    return [{ type: "text", text: part["text"], providerOptions: named(part.id) }];
  }
  if (part.type === "reasoning") return [{ type: "reasoning", text: part["text"], providerOptions: named(part.id) }];
  if (part.type === "file") {
    return [{ type: "file", mediaType: part["mime"], data: "", providerOptions: named(part.id) }];
  }
  return [];
}

function toCall(part: Part): SdkPart {
  const state = part["state"] as ToolState;
  const call = { toolCallId: part["callID"], toolName: part["tool"], input: state.input ?? {} };
  return { type: "tool-call", ...call, providerOptions: named(part.id) };
}

function toResult(part: Part): SdkPart {
  const call = { toolCallId: part["callID"], toolName: part["tool"] };
  return { type: "tool-result", ...call, output: outputOf(part["state"] as ToolState), providerOptions: named(part.id) };
}

function outputOf(state: ToolState): { type: string; value: unknown } {
  if (state.status !== "completed") return { type: "error-text", value: state.error ?? "" };
  const text = state.time?.compacted ? "" : (state.output ?? "");
  if (state.time?.compacted || !state.attachments?.length) return { type: "text", value: text };
  const files = state.attachments.map(() => ({ type: "file", mediaType: "image", data: "" }));
  return { type: "content", value: [{ type: "text", text }, ...files] };
}

/** Return a copy of an OpenCode message with what is left of it. */
function shortened(message: Message, left: SdkMessage[]): Message {
  const turn = left.filter((each) => each.role !== "tool").flatMap((each) => each.content);
  const results = new Map(left.filter((each) => each.role === "tool").flatMap((each) => each.content).map(byId));
  const kept = new Map(turn.filter((part) => part.providerOptions).map(byId));
  const parts = message.parts.flatMap((part) => {
    const now = kept.get(part.id);
    if (part.type === "text" && now) return [{ ...part, text: now["text"] }];
    if (part.type === "tool") return now ? [withState(part, now, results.get(part.id))] : [];
    return [part];
  });
  const marks = turn.filter((part) => !part.providerOptions).map((part) => part["text"] as string);
  const firstCall = parts.findIndex((part) => part.type === "tool");
  parts.splice(firstCall < 0 ? parts.length : firstCall, 0, ...marks.map((text, number) => mark(message, text, number)));
  return { ...message, parts };
}

function byId(part: SdkPart): [string, SdkPart] {
  return [part.providerOptions?.focusctx.id ?? "", part];
}

function withState(part: Part, call: SdkPart, result: SdkPart | undefined): Part {
  const before = part["state"] as ToolState;
  const state: ToolState = { ...before, input: call["input"] };
  const output = result?.["output"];
  if (before.status === "completed" && output?.type === "text" && !before.time?.compacted) {
    state.output = output.value;
    delete state.attachments; // a shortened result is text, and one with files would be of the type `content`
  } else if (before.status === "error" && output?.type === "error-text") {
    state.error = output.value;
  }
  return { ...part, state };
}

function mark(message: Message, text: string, number: number): Part {
  const { id, sessionID } = message.info;
  return { id: `prt_focusctx_${number}`, sessionID, messageID: id, type: "text", text, synthetic: true };
}
