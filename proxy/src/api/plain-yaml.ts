/**
 * Reads documents of plain YAML, such as nearly all manifests are, many times as fast as `yaml-text.ts`, but without
 * the locations of their fields. What is not plain gets no value here.
 *
 * A document is plain if both libraries read it in the same way and without an error: no anchors, aliases, tags,
 * explicit keys, directives, tabs or unusual characters; keys are short, different and texts; it is not nested deeply.
 * Plain scalars are resolved by the tags of the `yaml` package. A test compares both readers
 * (`test/hardening/differential/plain-yaml.test.ts`).
 */
import { type Event, EVENT_ID, getScalarValue, parseEvents, SCALAR_STYLE } from "js-yaml";
import { isScalar, Schema } from "yaml";
import { maxDepth } from "./yaml-values.ts";

/** A part of a text that contains one document at most. */
export interface TextPart {
  readonly from: number;
  readonly to: number;
}

/**
 * Splits a text at the lines that begin a document. Returns undefined if other lines may matter to several documents:
 * directives, document ends, a byte order mark, a line end of CR alone.
 */
export function documentParts(text: string): readonly TextPart[] | undefined {
  if (/\r(?!\n)|\n\.\.\.|\n%|\ufeff/.test(text) || text.startsWith("%") || text.startsWith("...")) return undefined;
  const parts: TextPart[] = [];
  let from = 0;
  for (let end = text.indexOf("\n---"); end !== -1; end = text.indexOf("\n---", end + 1)) {
    const next = text.charAt(end + 4);
    if (next !== "" && !/\s/.test(next)) continue;
    parts.push({ from, to: end + 1 });
    from = end + 1;
  }
  parts.push({ from, to: text.length });
  return parts;
}

/** The longest document that is read in one step, which takes some 6 ms. */
const maxLength = 64 * 1024;

/** The longest key. The `yaml` package accepts 1,024 characters up to the colon. */
const maxKeyLength = 1_000;

/** What no plain document contains: control and other characters that a library may reject or take for a line end. */
const unusualCharacter = /[^\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/u;

/** Where a node may begin with an anchor, an alias, a tag or an explicit key. It may match within a text, too. */
const nodeIndicator = /(?:^|[\n:?,[{-]) *[&*!?]/;

/** Returns the value of a document, or undefined if it is not plain. */
export function plainValue(text: string): { readonly value: unknown } | undefined {
  if (text.length > maxLength || mayDiffer(text)) return undefined;
  try {
    return { value: new PlainReader(text).read() };
  } catch {
    // An error of the text, or of a reader that expects plain text. It is read again by `yaml-text.ts`.
    return undefined;
  }
}

function mayDiffer(text: string): boolean {
  // An indented first line has no level in one library.
  return text.startsWith(" ") || unusualCharacter.test(text) || nodeIndicator.test(text);
}

/** Thrown for a document that is not plain. */
class NotPlain extends Error {}

/** Makes the value of a document from the events of its parser. */
class PlainReader {
  readonly #text: string;
  readonly #events: readonly Event[];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    this.#events = parseEvents(text, { maxDepth });
  }

  read(): unknown {
    // A text without a document, such as a comment.
    if (this.#events.length === 0) return null;
    const begin = this.#next();
    if (begin.type !== EVENT_ID.DOCUMENT || begin.explicitStart !== this.#text.startsWith("---")) throw new NotPlain();
    const value = this.#node();
    // The end of the document.
    if (this.#at !== this.#events.length - 1) throw new NotPlain();
    return value;
  }

  #next(): Event {
    const event = this.#events[this.#at++];
    if (event === undefined) throw new NotPlain();
    return event;
  }

  #node(): unknown {
    const event = this.#next();
    if (event.type === EVENT_ID.SCALAR) return this.#scalar(event);
    if (event.type === EVENT_ID.MAPPING) return this.#map();
    if (event.type === EVENT_ID.SEQUENCE) return this.#list();
    throw new NotPlain();
  }

  #list(): readonly unknown[] {
    const items: unknown[] = [];
    while (this.#events[this.#at]?.type !== EVENT_ID.POP) items.push(this.#node());
    this.#at++;
    return items;
  }

  #map(): Readonly<Record<string, unknown>> {
    const fields: Record<string, unknown> = {};
    let count = 0;
    for (; this.#events[this.#at]?.type !== EVENT_ID.POP; count++) {
      const key = this.#key();
      fields[key] = this.#node();
    }
    // Cheaper than a look-up of each key.
    if (Object.keys(fields).length !== count) throw new NotPlain();
    this.#at++;
    return fields;
  }

  #key(): string {
    const event = this.#next();
    if (event.type !== EVENT_ID.SCALAR || event.valueEnd - event.valueStart > maxKeyLength) throw new NotPlain();
    const end = event.style === SCALAR_STYLE.PLAIN ? event.valueEnd : event.valueEnd + 1;
    const key = this.#text.charAt(end) === ":" ? this.#scalar(event) : undefined;
    if (typeof key !== "string" || key === "__proto__") throw new NotPlain();
    return key;
  }

  #scalar(event: Extract<Event, { readonly type: typeof EVENT_ID.SCALAR }>): unknown {
    const value = getScalarValue(this.#text, event);
    const { style, valueStart } = event;
    if (style === SCALAR_STYLE.PLAIN) return resolvePlain(value);
    if (style === SCALAR_STYLE.LITERAL_BLOCK || style === SCALAR_STYLE.FOLDED_BLOCK) this.#checkHeader(valueStart);
    return value;
  }

  /** A block scalar is not plain with a number for its indentation. */
  #checkHeader(valueStart: number): void {
    const header = this.#text.slice(this.#text.lastIndexOf("\n", valueStart - 2) + 1, valueStart);
    if (/[|>][-+]?\d/.test(header)) throw new NotPlain();
  }
}

/** The first characters of plain scalars that are not texts; none for the empty one. A merge key is not plain. */
const firstOfOthers = new Set("-+.0123456789~nNtTfF<");

const scalarTags = new Schema({ schema: "core" }).tags.flatMap((tag) =>
  tag.default === true && tag.collection === undefined && tag.test !== undefined ? [tag] : [],
);

/** Returns the value of a plain scalar, as the `yaml` package resolves it. */
function resolvePlain(text: string): unknown {
  if (text !== "" && !firstOfOthers.has(text.charAt(0))) return text;
  if (text === "<<") throw new NotPlain();
  const tag = scalarTags.find(({ test }) => test?.test(text));
  if (tag === undefined) return text;
  const value = tag.resolve(text, rejectPlain, { intAsBigInt: false });
  return isScalar(value) ? value.value : value;
}

function rejectPlain(): never {
  throw new NotPlain();
}
