/**
 * Reads YAML text, and so JSON, into documents that can locate their fields. A broken document does not hide the others
 * of its file.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import { Composer, type CST, isScalar, Lexer, Parser } from "yaml";
import { plainValue } from "./plain-yaml.ts";
import { type DocumentText, type Locate, locateIn, TextLines, yamlOptions, type YamlTree } from "./yaml-locations.ts";
import { tokenError } from "./yaml-tokens.ts";
import { maxDepth, tooDeep, UnusableNode, ValueReader } from "./yaml-values.ts";

export type { Locate };

/** A file of manifests. */
export interface ManifestFile {
  /** The path as users know it; shown in every problem. */
  readonly path: string;
  readonly text: string;
}

/** A file, or a folder with all its files, that cannot be read at the moment. */
export interface UnreadableFile {
  readonly path: string;
  /** The reason. */
  readonly error: string;
}

/** A document with its value, or with the errors for which it has none. */
export type YamlDocument =
  | { readonly kind: "read"; readonly value: unknown; readonly locate: Locate }
  | { readonly kind: "unreadable"; readonly errors: readonly YamlError[] };

/** An error and its location. */
export interface YamlError {
  readonly location: SourceLocation;
  readonly message: string;
}

/** The most values that all aliases of a document may expand to, so that a short text cannot describe a huge tree. */
const maxAliased = 100_000;

/**
 * Reads all documents of a file, without the empty ones. Never throws. Takes time proportional to the length of the
 * text: keys, aliases and nesting are checked here and not by the `yaml` package, which compares each key with all
 * others of its map, searches the whole document for the anchor of each alias, and takes exponential time for some
 * nested texts.
 *
 * @param maxTokens the most tokens that the text may have; they are counted before anything else.
 */
export function readYaml(file: ManifestFile, maxTokens = Infinity): readonly YamlDocument[] {
  return [...runToEnd(collect(readYamlInSteps(file, maxTokens)))];
}

function* collect(documents: Generator<YamlDocument | undefined>): Steps<readonly YamlDocument[]> {
  const all: YamlDocument[] = [];
  for (const document of documents) {
    if (document === undefined) yield;
    else all.push(document);
  }
  return all;
}

/**
 * The same, one document at a time: the syntax tree of one is released before the next is read.
 *
 * @yields undefined where the work may be interrupted.
 */
export function* readYamlInSteps(
  { path: file, text }: ManifestFile,
  maxTokens = Infinity,
): Generator<YamlDocument | undefined, void, undefined> {
  const lines = new TextLines(text);
  const at = (offset: number): SourceLocation => ({ file, ...lines.at(offset) });
  try {
    const tooMany = yield* tokenError(text, maxTokens);
    if (tooMany !== undefined) {
      yield unreadable(at(0), tooMany);
      return;
    }
    const maxAliasedValues = Math.min(maxAliased, maxTokens);
    for (const found of treesOf(text)) {
      if (found === undefined) {
        yield;
      } else {
        const { tree, from, to } = found;
        yield readDocument(tree, { file, text, from, to, location: at(from) }, at, maxAliasedValues);
      }
    }
  } catch (error) {
    // The parser is recursive and may exceed the stack.
    const message = error instanceof RangeError ? tooDeep : "invalid YAML: cannot be read";
    yield unreadable(at(0), message);
  }
}

/** Returns the value of a text with one document at most, null for none; undefined if it has an error or several. */
export function* validValue(text: string): Steps<{ readonly value: unknown } | undefined> {
  const plain = plainValue(text);
  if (plain !== undefined) return plain;
  let found: { readonly value: unknown } = { value: null };
  let count = 0;
  for (const document of readYamlInSteps({ path: "", text })) {
    if (document === undefined) {
      yield;
    } else {
      if (document.kind === "unreadable" || ++count > 1) return undefined;
      found = { value: document.value };
    }
  }
  return found;
}

interface FoundTree extends Pick<DocumentText, "from" | "to"> {
  readonly tree: YamlTree;
}

/** Yields the syntax trees of a text with their ranges, and undefined between steps of the work. */
function* treesOf(text: string): Generator<FoundTree | undefined, void, undefined> {
  const composer = new Composer(yamlOptions);
  /**
   * The offset of the next document including its directives, and the offsets of those whose trees are not composed
   * yet.
   */
  let next: number | undefined;
  const begun: number[] = [];
  const found = (tree: YamlTree): FoundTree => ({ tree, from: begun.shift() ?? 0, to: begun[0] ?? text.length });
  for (const token of tokensOf(text)) {
    if (token === undefined) {
      yield;
      continue;
    }
    // The end marker of a document belongs to no document.
    if (token.type !== "doc-end") next ??= "offset" in token ? token.offset : undefined;
    if (token.type === "document") {
      begun.push(next ?? token.offset);
      next = undefined;
    }
    for (const tree of composer.next(token)) yield found(tree);
    yield;
  }
  for (const tree of composer.end()) yield found(tree);
}

/** Lexemes per step, which take well below a millisecond. */
const lexemesPerStep = 500;

/** The tokens of `Parser.parse`; undefined between steps of the work. */
function* tokensOf(text: string): Generator<CST.Token | undefined, void, undefined> {
  const parser = new Parser();
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme);
    if (++count % lexemesPerStep === 0) yield;
  }
  yield* parser.end();
}

function readDocument(
  tree: YamlTree,
  document: DocumentText,
  at: (offset: number) => SourceLocation,
  maxAliasedValues: number,
): YamlDocument | undefined {
  // Only the first error is reported: those after it are mostly its consequences.
  const [error] = tree.errors;
  if (error !== undefined) return unreadable(at(error.pos[0]), `invalid YAML: ${error.message}`);
  const { contents } = tree;
  if (contents === null || (isScalar(contents) && contents.value === null)) return undefined;
  const start = contents.range?.[0] ?? 0;
  try {
    const { value } = new ValueReader(maxAliasedValues).read(contents, maxDepth);
    return { kind: "read", value, locate: locateIn(document, { tree, at }) };
  } catch (error) {
    if (!(error instanceof UnusableNode)) throw error;
    return unreadable(at(error.offset ?? start), error.message);
  }
}

function unreadable(location: SourceLocation, message: string): YamlDocument {
  return { kind: "unreadable", errors: [{ location, message }] };
}
