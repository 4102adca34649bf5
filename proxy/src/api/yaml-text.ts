/**
 * Reads YAML text (of which JSON is a part) into documents that remember where each field stands. One broken document
 * does not hide the others of its file.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Pair,
  parseAllDocuments,
} from "yaml";
import type { FieldPath } from "./issue.ts";

/** A file of manifests. */
export interface ManifestFile {
  /** As users know it; shown in every problem. */
  readonly path: string;
  readonly text: string;
}

/** A file, or a folder with all its files, that cannot be read now. */
export interface UnreadableFile {
  readonly path: string;
  /** Why. */
  readonly fault: string;
}

export type YamlDocument =
  | { readonly kind: "read"; readonly value: unknown; readonly locate: Locate }
  | { readonly kind: "unreadable"; readonly faults: readonly YamlFault[] };

export interface YamlFault {
  readonly location: SourceLocation;
  readonly message: string;
}

/**
 * Where a field stands; the place of the nearest field around it when it is absent. Points at a scalar's value, and at
 * the name of a field that holds more, or whenever `pointsAtName`.
 */
export type Locate = (path: FieldPath, pointsAtName?: boolean) => SourceLocation;

/** Nesting that a document may have; far more than any resource has. */
const maxDepth = 64;

/** Values that the aliases of a document may stand for together, so that a short text does not describe a huge tree. */
const maxAliased = 100_000;

/**
 * All documents of a file, without the empty ones. Never throws. Takes time in proportion to the length of the text. So
 * keys, aliases and nesting are checked here and not by the `yaml` package, which compares each key with all others of its
 * map, looks for the anchor of each alias in the whole document, and takes exponential time for some nested texts.
 *
 * @param maxTokens words and signs that the text may have, counted before anything else is done with it.
 */
export function readYaml({ path: file, text }: ManifestFile, maxTokens = Infinity): readonly YamlDocument[] {
  const lines = new LineCounter();
  const at = (offset: number): SourceLocation => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col) };
  };
  try {
    const refusal = refusalByTokens(text, maxTokens);
    if (refusal !== undefined) return [unreadable(at(0), refusal)];
    // Pretty errors quote the text around the fault, which may be a secret.
    const options = { lineCounter: lines, merge: true, prettyErrors: false, uniqueKeys: false } as const;
    return parseAllDocuments(text, options).flatMap((document) => {
      return readDocument(document, at, Math.min(maxAliased, maxTokens)) ?? [];
    });
  } catch (error) {
    // The parser recurses into nested collections.
    const fault = error instanceof RangeError ? tooDeep : "invalid YAML: cannot be read";
    return [unreadable(at(0), fault)];
  }
}

const tooDeep = `text is nested deeper than ${maxDepth} levels`;

type YamlSource = Document.Parsed | Document;

function readDocument(
  document: YamlSource,
  at: (offset: number) => SourceLocation,
  maxAliasedValues: number,
): YamlDocument | undefined {
  // What the parser makes of the text behind its first fault is mostly faults that are none.
  const [fault] = document.errors;
  if (fault !== undefined) return unreadable(at(fault.pos[0]), `invalid YAML: ${fault.message}`);
  const { contents } = document;
  if (contents === null || (isScalar(contents) && contents.value === null)) return undefined;
  const start = contents.range?.[0] ?? 0;
  try {
    const value = new ValueReader(maxAliasedValues).read(contents, maxDepth).value;
    const locate: Locate = (path, pointsAtName = false) => at(offsetOf(document, path, pointsAtName) ?? start);
    return { kind: "read", value, locate };
  } catch (error) {
    if (!(error instanceof UnusableNode)) throw error;
    return unreadable(at(error.offset ?? start), error.message);
  }
}

class UnusableNode extends Error {
  readonly offset: number | undefined;

  constructor(message: string, node: unknown) {
    super(message);
    this.offset = isNode(node) ? node.range?.[0] : undefined;
  }
}

interface ReadValue {
  readonly value: unknown;
  /** Values in it, itself included, those of aliases as often as they are used. */
  readonly count: number;
  /** Levels of collections in it. */
  readonly depth: number;
  /** Of a map. */
  readonly fields?: ReadonlyMap<string, ReadValue>;
  /** Of a list. */
  readonly items?: readonly ReadValue[];
}

/** Makes plain values of the nodes of one document. An alias gives the very value of its anchor. */
class ValueReader {
  /** By anchor; undefined while the value is being read. */
  readonly #anchored = new Map<string, ReadValue | undefined>();
  readonly #maxAliasedValues: number;
  #aliased = 0;

  constructor(maxAliasedValues: number) {
    this.#maxAliasedValues = maxAliasedValues;
  }

  /** @throws UnusableNode */
  read(node: unknown, levels: number): ReadValue {
    if (isAlias(node)) return this.#readAlias(node, levels);
    if (isScalar(node)) return this.#anchor(node.anchor, { value: node.value, count: 1, depth: 0 });
    if (!isMap(node) && !isSeq(node)) return { value: null, count: 1, depth: 0 };
    if (levels === 0) throw new UnusableNode(tooDeep, node);
    this.#anchor(node.anchor, undefined);
    const read = isMap(node) ? this.#readMap(node.items, levels - 1) : this.#readList(node.items, levels - 1);
    return this.#anchor(node.anchor, read);
  }

  #anchor<T extends ReadValue | undefined>(anchor: string | undefined, read: T): T {
    if (anchor !== undefined && anchor !== "") this.#anchored.set(anchor, read);
    return read;
  }

  #readAlias(alias: Alias, levels: number): ReadValue {
    if (!this.#anchored.has(alias.source)) {
      const message = `invalid YAML: Unresolved alias (the anchor must be set before the alias): ${alias.source}`;
      throw new UnusableNode(message, alias);
    }
    const read = this.#anchored.get(alias.source);
    // The value of an alias to a node around itself has no end.
    if (read === undefined || read.depth > levels) throw new UnusableNode(tooDeep, alias);
    this.#spend(read.count, alias);
    return read;
  }

  #spend(values: number, node: unknown): void {
    this.#aliased += values;
    if (this.#aliased <= this.#maxAliasedValues) return;
    throw new UnusableNode(`invalid YAML: aliases stand for more than ${this.#maxAliasedValues} values`, node);
  }

  #readList(items: readonly unknown[], levels: number): ReadValue {
    const read = items.map((item) => this.read(item, levels));
    return { value: read.map(({ value }) => value), items: read, ...measureOf(read) };
  }

  #readMap(items: readonly Pair[], levels: number): ReadValue {
    const fields = new Map<string, ReadValue>();
    const own = new Set<string>();
    for (const { key, value: node } of items) {
      if (isMergeKey(key)) {
        // Fields of the map itself win, then those of the map that is merged first.
        for (const [name, field] of this.#mergedFields(node, levels)) if (!fields.has(name)) fields.set(name, field);
        continue;
      }
      const { value: name } = this.read(key, levels);
      if (typeof name === "object" && name !== null) {
        throw new UnusableNode("invalid YAML: a key must be a text, not a collection", key);
      }
      const text = name === null ? "" : `${name as string | number | boolean}`;
      if (own.has(text)) throw new UnusableNode("invalid YAML: Map keys must be unique", key);
      own.add(text);
      fields.set(text, this.read(node, levels));
    }
    const value: unknown = Object.fromEntries(Array.from(fields, ([name, field]) => [name, field.value]));
    return { value, fields, ...measureOf([...fields.values()]) };
  }

  /** Of the map, or of several, that a merge key names. */
  #mergedFields(node: unknown, levels: number): readonly (readonly [string, ReadValue])[] {
    const read = this.read(node, levels);
    return (read.items ?? [read]).flatMap(({ fields }) => {
      if (fields === undefined) throw new UnusableNode("invalid YAML: Merge sources must be maps or map aliases", node);
      this.#spend(fields.size, node);
      return [...fields];
    });
  }
}

function measureOf(read: readonly ReadValue[]): Pick<ReadValue, "count" | "depth"> {
  return read.reduce((sum, { count, depth }) => ({ count: sum.count + count, depth: Math.max(sum.depth, depth + 1) }), {
    count: 1,
    depth: 1,
  });
}

function isMergeKey(key: unknown): boolean {
  if (!isScalar(key)) return false;
  const { type = "PLAIN", value } = key;
  return type === "PLAIN" && (value === "<<" || (typeof value === "symbol" && value.description === "<<"));
}

/** Twice the depth, since not every sign that may open a collection does. */
const maxOpenTokens = 2 * maxDepth;

/**
 * Why a text is not parsed: it has too many tokens, or may be nested so deeply that parsing it takes exponential time.
 * What passes nests at most `maxOpenTokens` levels; whatever nests up to `maxDepth` levels passes.
 */
function refusalByTokens(text: string, maxTokens: number): string | undefined {
  /** Columns of the lines around the current one, ascending. */
  const columns: number[] = [];
  let column = 0;
  let isLineStart = true;
  /** Indicators that may open a collection on the line, or since the last item of a flow collection. */
  let indicators = 0;
  let flow = 0;
  let isContent = false;
  let count = 0;
  for (const token of new Lexer().lex(text)) {
    if (++count > maxTokens) return `text has more than ${maxTokens} words and signs`;
    if (isContent) {
      isContent = false;
      continue;
    }
    const first = token[0] ?? "";
    if (first === "\n" || first === "\r") {
      column = 0;
      isLineStart = true;
      if (flow === 0) indicators = 0;
      continue;
    }
    if (first === " " || first === "\t") {
      if (isLineStart) column = token.length;
      continue;
    }
    if (isLineStart && flow === 0 && first !== "#") {
      while (columns.length > 0 && (columns.at(-1) ?? 0) >= column) columns.pop();
      columns.push(column);
    }
    isLineStart = false;
    if (first === "[" || first === "{") flow++;
    else if (first === "]" || first === "}") flow = Math.max(0, flow - 1);
    else if (token === "-" || token === "?" || token === ":") indicators++;
    else if (first === "," && flow > 0) indicators = 0;
    // What follows is a text, whatever it looks like.
    else if (first === "\u001f") isContent = true;
    if (columns.length + indicators + flow > maxOpenTokens) return tooDeep;
  }
  return undefined;
}

function unreadable(location: SourceLocation, message: string): YamlDocument {
  return { kind: "unreadable", faults: [{ location, message }] };
}

/** Offset of the deepest field on the path that exists. */
function offsetOf(document: YamlSource, path: FieldPath, pointsAtName: boolean): number | undefined {
  let node: unknown = document.contents;
  let offset: number | undefined;
  for (const [depth, part] of path.entries()) {
    if (isAlias(node)) node = node.resolve(document);
    const isLast = depth === path.length - 1;
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(part));
      if (pair === undefined) return offset;
      offset = offsetOfPair(pair, isLast && pointsAtName) ?? offset;
      node = pair.value;
    } else if (isSeq(node) && typeof part === "number") {
      node = node.items[part];
      if (isNode(node)) offset = node.range?.[0] ?? offset;
    } else {
      return offset;
    }
  }
  return offset;
}

function offsetOfPair({ key, value }: Pair, pointsAtName: boolean): number | undefined {
  const isPlainValue = isScalar(value) && value.value !== null;
  const target = isPlainValue && !pointsAtName ? value : key;
  return isNode(target) ? target.range?.[0] : undefined;
}
