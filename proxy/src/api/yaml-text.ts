/**
 * Reads YAML text (of which JSON is a part) into documents that remember where each field stands. One broken document
 * does not hide the others of its file.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import { atOnce, type Steps } from "@gatewayproxy/runtime/steps";
import { Composer, type CST, isScalar, Lexer, Parser } from "yaml";
import { type DocumentText, type Locate, locateIn, TextLines, yamlOptions, type YamlTree } from "./yaml-locations.ts";
import { refusalByTokens } from "./yaml-tokens.ts";
import { maxDepth, tooDeep, UnusableNode, ValueReader } from "./yaml-values.ts";

export type { Locate };

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

/** Values that the aliases of a document may stand for together, so that a short text does not describe a huge tree. */
const maxAliased = 100_000;

/**
 * All documents of a file, without the empty ones. Never throws. Takes time in proportion to the length of the text. So
 * keys, aliases and nesting are checked here and not by the `yaml` package, which compares each key with all others of its
 * map, looks for the anchor of each alias in the whole document, and takes exponential time for some nested texts.
 *
 * @param maxTokens words and signs that the text may have, counted before anything else is done with it.
 */
export function readYaml(file: ManifestFile, maxTokens = Infinity): readonly YamlDocument[] {
  return [...atOnce(collect(readYamlInSteps(file, maxTokens)))];
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
 * The same, one document after the other: the syntax tree of one is dropped before the next one is read.
 *
 * @yields undefined where the reading may be interrupted.
 */
export function* readYamlInSteps(
  { path: file, text }: ManifestFile,
  maxTokens = Infinity,
): Generator<YamlDocument | undefined, void, undefined> {
  const lines = new TextLines(text);
  const at = (offset: number): SourceLocation => ({ file, ...lines.at(offset) });
  try {
    const refusal = yield* refusalByTokens(text, maxTokens);
    if (refusal !== undefined) {
      yield unreadable(at(0), refusal);
      return;
    }
    const maxAliasedValues = Math.min(maxAliased, maxTokens);
    for (const found of treesOf(text)) {
      if (found === undefined) yield;
      else {
        const { tree, from, to } = found;
        yield readDocument(tree, { file, text, from, to, location: at(from) }, at, maxAliasedValues);
      }
    }
  } catch (error) {
    // The parser recurses into nested collections.
    const fault = error instanceof RangeError ? tooDeep : "invalid YAML: cannot be read";
    yield unreadable(at(0), fault);
  }
}

interface FoundTree extends Pick<DocumentText, "from" | "to"> {
  readonly tree: YamlTree;
}

/** The syntax trees of a text, with the pieces that they were made of; undefined between pieces of the work. */
function* treesOf(text: string): Generator<FoundTree | undefined, void, undefined> {
  const composer = new Composer(yamlOptions);
  /** Where the next document begins, with its directives; and where those begin whose trees are not made yet. */
  let next: number | undefined;
  const begun: number[] = [];
  const found = (tree: YamlTree): FoundTree => ({ tree, from: begun.shift() ?? 0, to: begun[0] ?? text.length });
  for (const token of tokensOf(text)) {
    if (token === undefined) {
      yield;
      continue;
    }
    // The mark of a document's end belongs to none.
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

/** Reading so many takes well below a millisecond. */
const lexemesPerStep = 500;

/** What `Parser.parse` gives; undefined between pieces of the work. */
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
  // What the parser makes of the text behind its first fault is mostly faults that are none.
  const [fault] = tree.errors;
  if (fault !== undefined) return unreadable(at(fault.pos[0]), `invalid YAML: ${fault.message}`);
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
  return { kind: "unreadable", faults: [{ location, message }] };
}
