/**
 * Locates the fields of a document in its text. A syntax tree takes many times the memory of its text and is needed
 * only where there is an error. It is not kept, but parsed again when it is needed.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import { type Document, isAlias, isMap, isNode, isScalar, isSeq, type Pair, parseAllDocuments } from "yaml";
import type { FieldPath } from "./issue.ts";

/**
 * Returns the location of a field, or of the nearest enclosing field where it is absent. The location is that of a
 * scalar value; for maps and lists, or with `pointsAtName`, that of the field's name.
 */
export type Locate = (path: FieldPath, pointsAtName?: boolean) => SourceLocation;

/** Options of the `yaml` package. Its pretty errors quote the text around the error, which may be a secret. */
export const yamlOptions = { merge: true, prettyErrors: false, uniqueKeys: false } as const;

/** A parsed document of the `yaml` package. */
export type YamlTree = Document.Parsed | Document;

/** The part of a file that contains one document. */
export interface DocumentText {
  readonly file: string;
  /** The whole text of the file. */
  readonly text: string;
  /** Offsets of the beginning and the end of the part. */
  readonly from: number;
  readonly to: number;
  /** The location of its beginning. */
  readonly location: SourceLocation;
}

interface LocatedTree {
  readonly tree: YamlTree;
  readonly at: (offset: number) => SourceLocation;
}

/**
 * Returns a function that locates fields.
 *
 * @param located the parsed document with a function for its offsets; used as long as it is not garbage-collected.
 */
export function locateIn(document: DocumentText, located: LocatedTree): Locate {
  return new DocumentLocator(document, new WeakRef(located)).locate;
}

/** Locates the fields of a document that is parsed when it is needed. */
export class DocumentLocator {
  readonly #document: DocumentText;
  #known: WeakRef<LocatedTree> | undefined;
  /** The tree, until `release`. */
  #held: LocatedTree | undefined;
  #isHeld = false;

  constructor(document: DocumentText, known?: WeakRef<LocatedTree>) {
    this.#document = document;
    this.#known = known;
  }

  readonly locate: Locate = (path, pointsAtName = false) => {
    const { tree, at } = this.#held ?? this.#known?.deref() ?? this.#parse();
    return at(offsetOf(tree, path, pointsAtName) ?? tree.contents?.range?.[0] ?? 0);
  };

  /** Keeps a tree that is parsed from now on until `release`: a document may have many errors. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    this.#held = undefined;
  }

  #parse(): LocatedTree {
    const found = parseAgain(this.#document);
    this.#known = new WeakRef(found);
    if (this.#isHeld) this.#held = found;
    return found;
  }
}

function parseAgain({ file, text, from, to, location: start }: DocumentText): LocatedTree {
  const piece = text.slice(from, to);
  const trees: readonly YamlTree[] = parseAllDocuments(piece, yamlOptions);
  // Text before a document, such as the end of the previous one, may count as an empty document.
  const tree = trees.find(({ contents }) => contents !== null) ?? parseAllDocuments("null", yamlOptions)[0];
  if (tree === undefined) throw new Error(`${file} cannot be parsed again`);
  const lines = new TextLines(piece);
  const at = (offset: number): SourceLocation => {
    const { line, column } = lines.at(offset);
    return { file, line: start.line + line - 1, column: line === 1 ? start.column + column - 1 : column };
  };
  return { tree, at };
}

/**
 * Maps offsets of a text to lines and columns. The `yaml` package miscounts lines after a block scalar with CRLF line
 * ends.
 */
export class TextLines {
  readonly #text: string;
  /** Offsets of the lines. */
  #starts: readonly number[] | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns line and column, both from 1. */
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

/** Returns the offset of the deepest existing field on the path. */
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
