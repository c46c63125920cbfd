/**
 * Messages as JSON and back. Values that JSON cannot hold (bytes, URLs, dates) stay here, and so does the content of
 * long files: a placeholder travels instead.
 */

export interface Packed {
  /** The JSON text of each message. */
  texts: string[];
  /** The values that stayed here, by the number in their placeholder. */
  held: unknown[];
}

const HELD = "focusctx:held";
const LONG = 1000;
const FILES = new Set(["file", "image", "media", "data", "file-data", "image-data", "reasoning-file"]);

export function pack(messages: readonly object[]): Packed {
  const held: unknown[] = [];
  function replace(this: unknown, key: string, value: unknown): unknown {
    const holder = this as Record<string, unknown>;
    const original = holder[key]; // `value` is already what `toJSON` made of it
    return staysHere(original, key, holder) ? { [HELD]: held.push(original) - 1 } : value;
  }
  return { texts: messages.map((message) => JSON.stringify(message, replace)), held };
}

/** Return the messages of an answer, with the original objects for all that did not change. */
export function unpack<M extends object>(answered: readonly object[], packed: Packed, messages: readonly M[]): M[] {
  const places = new Map<string, number[]>();
  packed.texts.forEach((text, place) => {
    const alike = places.get(text);
    alike ? alike.push(place) : places.set(text, [place]);
  });
  return answered.map((message) => {
    const place = places.get(JSON.stringify(message))?.shift();
    return (place === undefined ? revive(message, packed.held) : messages[place]) as M;
  });
}

function staysHere(value: unknown, key: string, holder: Record<string, unknown>): boolean {
  if (typeof value === "bigint") return true;
  if (typeof value === "string") {
    return value.length > LONG && (key === "data" || key === "image") && FILES.has(String(holder["type"]));
  }
  if (typeof value !== "object" || value === null) return false;
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value instanceof URL || value instanceof Date;
}

function revive(value: unknown, held: readonly unknown[]): unknown {
  if (Array.isArray(value)) return value.map((each) => revive(each, held));
  if (typeof value !== "object" || value === null) return value;
  const number = (value as Record<string, unknown>)[HELD];
  if (typeof number === "number") return held[number];
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, revive(each, held)]));
}
