/**
 * Reads a list of the API server object by object, while it is received: a page has a hundred objects of up to 1.5 MiB,
 * which are too much for one turn of the event loop, and for the memory of a controller.
 */

import { parseBounded } from "./bounded-json.ts";
import { parseJson } from "./connection.ts";
import { fieldsOf, type KubeObject, type ObjectList, readList } from "./object.ts";

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];
const blanks: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d]);

const itemsKey = /"items"\s*:\s*$/;

/** Splits the JSON text of a list, wherever its chunks end, into its items and the rest. */
export class ListReader {
  /** The text outside of the items. */
  readonly #rest: Buffer[] = [];
  /** The received part of an incomplete item. */
  #item: Buffer[] = [];
  #place: "outside" | "between" | "inItem" = "outside";
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  /** The list without its items, as far as it has been received; valid JSON at the end. */
  get rest(): string {
    return Buffer.concat(this.#rest).toString("utf8");
  }

  /**
   * Reads more of the text.
   *
   * @returns the JSON texts of the items that are complete now.
   * @throws `Error` for an item that is not an object.
   */
  read(chunk: Buffer): readonly Buffer[] {
    const items: Buffer[] = [];
    let start = 0;
    for (let at = this.#endOfString(chunk, 0); at < chunk.length; at++) {
      const byte = chunk[at];
      if (this.#place === "between") {
        if (byte === openBrace || byte === closeBracket) start = at;
        this.#betweenItems(byte);
      } else if (byte === quote) {
        this.#isInString = true;
        at = this.#endOfString(chunk, at + 1) - 1;
      } else if (byte === openBrace || byte === openBracket) {
        this.#depth++;
        if (this.#depth === 2 && byte === openBracket && this.#isItems(chunk, start, at)) {
          this.#rest.push(chunk.subarray(start, at + 1));
          this.#place = "between";
        }
      } else if (byte === closeBrace || byte === closeBracket) {
        this.#depth--;
        if (this.#place === "inItem" && this.#depth === 2) {
          items.push(Buffer.concat([...this.#item, chunk.subarray(start, at + 1)]));
          this.#item = [];
          this.#place = "between";
        }
      }
    }
    if (this.#place === "inItem") this.#item.push(chunk.subarray(start));
    else if (this.#place === "outside") this.#rest.push(chunk.subarray(start));
    return items;
  }

  #betweenItems(byte: number | undefined): void {
    if (byte === openBrace) {
      this.#place = "inItem";
      this.#depth++;
    } else if (byte === closeBracket) {
      this.#place = "outside";
      this.#depth--;
    } else if (byte !== comma && !blanks.has(byte ?? 0)) {
      throw new Error("the list of the API server has an item that is not an object");
    }
  }

  /** Whether the bracket at `at` begins the items. */
  #isItems(chunk: Buffer, start: number, at: number): boolean {
    if (this.#place !== "outside") return false;
    return itemsKey.test(Buffer.concat([...this.#rest, chunk.subarray(start, at)]).toString("latin1"));
  }

  /** Returns the position behind the string in which `at` is; `at` itself outside of a string. */
  #endOfString(chunk: Buffer, start: number): number {
    if (!this.#isInString) return start;
    let at = start;
    let isEscaped = this.#isEscaped;
    for (; at < chunk.length; at++) {
      const byte = chunk[at];
      if (isEscaped) {
        isEscaped = false;
      } else if (byte === backslash) {
        isEscaped = true;
      } else if (byte === quote) {
        this.#isInString = false;
        this.#isEscaped = false;
        return at + 1;
      }
    }
    this.#isEscaped = isEscaped;
    return at;
  }
}

/** The end of a page. */
export type ListEnd = Omit<ObjectList, "items">;

/**
 * Reads a page of a list. Yields its objects, as `readList`, in the groups in which they are received.
 *
 * @returns what follows the objects.
 * @throws `Error` for anything but a list.
 */
export async function* readListItems(body: AsyncIterable<Buffer>): AsyncGenerator<readonly KubeObject[], ListEnd> {
  const reader = new ListReader();
  // Items without a kind take that of the list, which may come behind them.
  const unnamed: KubeObject[] = [];
  for await (const chunk of body) {
    const named: KubeObject[] = [];
    for (const text of reader.read(chunk)) {
      const item = parseBounded(text) as KubeObject;
      (typeof item["kind"] === "string" ? named : unnamed).push(item);
    }
    if (unnamed.length > 0) {
      const kind = kindBefore(reader.rest);
      if (kind !== undefined) named.push(...unnamed.splice(0).map((item) => ({ ...kind, ...item })));
    }
    if (named.length > 0) yield named;
  }
  const { items, ...end } = readList({ ...fieldsOf(parseJson(reader.rest)), items: unnamed });
  if (items.length > 0) yield items;
  return end;
}

/** Returns the type of items, if the text before them has it; lists of built-in kinds begin with it. */
function kindBefore(rest: string): { readonly apiVersion: string; readonly kind: string } | undefined {
  const { apiVersion, kind } = fieldsOf(parseJson(`${rest}]}`));
  if (typeof apiVersion !== "string" || typeof kind !== "string") return undefined;
  return { apiVersion, kind: kind.replace(/List$/, "") };
}
