/**
 * Reads YAML text (of which JSON is a part) into documents that remember where each field stands. One broken document
 * does not hide the others of its file.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  parseAllDocuments,
  visit,
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

/** All documents of a file, without the empty ones. Never throws. */
export function readYaml({ path: file, text }: ManifestFile): readonly YamlDocument[] {
  const lines = new LineCounter();
  const at = (offset: number): SourceLocation => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col) };
  };
  try {
    // Pretty errors quote the text around the fault, which may be a secret.
    const documents = parseAllDocuments(text, { lineCounter: lines, merge: true, prettyErrors: false });
    return documents.flatMap((document) => readDocument(document, at) ?? []);
  } catch (error) {
    // The parser recurses into nested collections.
    const fault = error instanceof RangeError ? "text is nested too deeply" : "invalid YAML: cannot be read";
    return [unreadable(at(0), fault)];
  }
}

type YamlSource = Document.Parsed | Document;

function readDocument(document: YamlSource, at: (offset: number) => SourceLocation): YamlDocument | undefined {
  if (document.errors.length > 0) {
    const faults = document.errors.map(({ message, pos }) => ({
      location: at(pos[0]),
      message: `invalid YAML: ${message}`,
    }));
    return { kind: "unreadable", faults };
  }
  if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) return undefined;
  const start = document.contents.range?.[0] ?? 0;
  try {
    const value: unknown = document.toJS();
    if (nestsDeeper(value, maxDepth)) return unreadable(at(start), `text is nested deeper than ${maxDepth} levels`);
    const locate: Locate = (path, pointsAtName = false) => at(offsetOf(document, path, pointsAtName) ?? start);
    return { kind: "read", value, locate };
  } catch (error) {
    // An alias of nothing, too many aliases (a "billion laughs" text), or nested too deeply.
    return unreadable(
      at(unresolvedAlias(document) ?? start),
      `invalid YAML: ${error instanceof Error ? error.message : "cannot be read"}`,
    );
  }
}

/** Offset of the first alias whose anchor is missing. */
function unresolvedAlias(document: YamlSource): number | undefined {
  let offset: number | undefined;
  visit(document, {
    Alias(_, alias) {
      if (alias.resolve(document) !== undefined) return undefined;
      offset = alias.range?.[0];
      return visit.BREAK;
    },
  });
  return offset;
}

/** Far more than any resource has; an alias to a node around itself has no depth at all. */
const maxDepth = 64;

function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => nestsDeeper(item, levels - 1));
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
