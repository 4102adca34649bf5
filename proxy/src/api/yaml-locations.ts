/**
 * Where the fields of a document stand in its text. The syntax tree of a document takes many times the memory of its text
 * and is asked for only where something is wrong. So it is not kept: it is parsed again when it is needed.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import { type Document, isAlias, isMap, isNode, isScalar, isSeq, type Pair, parseAllDocuments } from "yaml";
import type { FieldPath } from "./issue.ts";

/**
 * Where a field stands; the place of the nearest field around it when it is absent. Points at a scalar's value, and at
 * the name of a field that holds more, or whenever `pointsAtName`.
 */
export type Locate = (path: FieldPath, pointsAtName?: boolean) => SourceLocation;

/** Pretty errors quote the text around the fault, which may be a secret. */
export const yamlOptions = { merge: true, prettyErrors: false, uniqueKeys: false } as const;

export type YamlTree = Document.Parsed | Document;

/** A piece of a file's text with one document. */
export interface DocumentText {
  readonly file: string;
  /** The whole text of the file. */
  readonly text: string;
  /** Where the piece begins, and where it ends. */
  readonly from: number;
  readonly to: number;
  /** Of its beginning. */
  readonly location: SourceLocation;
}

interface PlacedTree {
  readonly tree: YamlTree;
  readonly at: (offset: number) => SourceLocation;
}

/** @param tree what the whole file was parsed to, with the places of its offsets; used while it is there. */
export function locateIn(document: DocumentText, placed: PlacedTree): Locate {
  let known = new WeakRef(placed);
  return (path, pointsAtName = false) => {
    let found = known.deref();
    if (found === undefined) {
      found = parseAgain(document);
      known = new WeakRef(found);
    }
    const { tree, at } = found;
    return at(offsetOf(tree, path, pointsAtName) ?? tree.contents?.range?.[0] ?? 0);
  };
}

function parseAgain({ file, text, from, to, location: start }: DocumentText): PlacedTree {
  const piece = text.slice(from, to);
  const trees: readonly YamlTree[] = parseAllDocuments(piece, yamlOptions);
  // What comes before a document, such as the end of the one before, may count as an empty one.
  const tree = trees.find(({ contents }) => contents !== null) ?? parseAllDocuments("null", yamlOptions)[0];
  if (tree === undefined) throw new Error(`${file} cannot be parsed again`);
  const lines = new TextLines(piece);
  const at = (offset: number): SourceLocation => {
    const { line, column } = lines.at(offset);
    return { file, line: start.line + line - 1, column: line === 1 ? start.column + column - 1 : column };
  };
  return { tree, at };
}

/** Lines of a text. The `yaml` package's own count is wrong behind a block scalar whose lines end with CR and LF. */
export class TextLines {
  readonly #text: string;
  /** Offset of each line. */
  #starts: readonly number[] | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  /** Both from 1. */
  at(offset: number): { readonly line: number; readonly column: number } {
    this.#starts ??= lineStarts(this.#text);
    let low = 0;
    let high = this.#starts.length;
    while (low + 1 < high) {
      const middle = (low + high) >>> 1;
      if ((this.#starts[middle] ?? 0) <= offset) low = middle;
      else high = middle;
    }
    return { line: low + 1, column: offset - (this.#starts[low] ?? 0) + 1 };
  }
}

function lineStarts(text: string): readonly number[] {
  const starts = [0];
  for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", end + 1)) starts.push(end + 1);
  return starts;
}

/** Offset of the deepest field on the path that exists. */
function offsetOf(document: YamlTree, path: FieldPath, pointsAtName: boolean): number | undefined {
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
