/**
 * Parses YAML text into values with locations. envoyproxy/ratelimit reads YAML 1.1 as Go's yaml.v2 does, and existing
 * files rely on it: `yes` is a boolean, `010` is eight, `12:30` is a string, `<<` merges, and a scalar in the place of
 * a string keeps its spelling. The `yaml` package parses the text, and this module gives plain scalars the types of
 * yaml.v2.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  type Scalar,
  type YAMLMap,
} from "yaml";
import type { ConfigProblem } from "./config-problem.ts";

/** A value of a YAML document. */
export type YamlValue = YamlScalar | YamlList | YamlMap;

/** A scalar with the type that yaml.v2 gives it. */
export interface YamlScalar {
  readonly kind: "scalar";
  readonly type: "null" | "boolean" | "integer" | "float" | "string";
  /** As written, without quotes. */
  readonly text: string;
  readonly location: SourceLocation;
}

/** A sequence. */
export interface YamlList {
  readonly kind: "list";
  readonly items: readonly YamlValue[];
  readonly location: SourceLocation;
}

/** A mapping. */
export interface YamlMap {
  readonly kind: "map";
  /** In order, with merges resolved and one entry per key; of duplicate keys, the last. */
  readonly entries: readonly YamlEntry[];
  readonly location: SourceLocation;
}

/** One key and value of a mapping. */
export interface YamlEntry {
  readonly key: YamlScalar;
  readonly value: YamlValue;
}

/** The result of parsing a text. */
export interface YamlDocument {
  /** The first document; absent for an empty text, and when it cannot be read. */
  readonly value?: YamlValue;
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
}

/**
 * Maximum number of values. Aliases let a short text describe an endless tree; no configuration written by hand has
 * this many values.
 */
const maxValues = 200_000;

/**
 * Matches characters that a YAML file may not contain (YAML 1.1 §5.1), a byte order mark inside the text, and the line
 * breaks that only YAML 1.1 knows (U+0085, U+2028, U+2029), which envoyproxy/ratelimit reads as breaks and the package
 * as text.
 */
const forbiddenCharacter = /[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/u;

/** Reads the first YAML document of `source`. Never throws. */
export function readYaml(source: string, file: string): YamlDocument {
  // A carriage return alone also ends a line, but the package reads it as text.
  const text = source.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n");
  const forbidden = forbiddenCharacter.exec(text);
  if (forbidden !== null) {
    const before = text.slice(0, forbidden.index).split("\n");
    const code = (text.codePointAt(forbidden.index) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    const location = { file, line: before.length, column: (before.at(-1) ?? "").length + 1 };
    return {
      problems: [loadingProblem(`control characters are not allowed, found U+${code}`, location)],
      warnings: [],
    };
  }
  const lineCounter = new LineCounter();
  const documents = parseAllDocuments(text, {
    lineCounter,
    schema: "failsafe",
    uniqueKeys: false,
    prettyErrors: false,
  });
  const locate = (offset: number): SourceLocation => {
    const { line, col } = lineCounter.linePos(offset);
    return { file, line, column: col };
  };
  if (!Array.isArray(documents)) return { problems: [], warnings: [] };
  const [first, second] = documents;
  if (first === undefined) return { problems: [], warnings: [] };
  if (first.errors.length > 0) {
    const problems = first.errors.map((error) => loadingProblem(error.message, locate(error.pos[0])));
    return { problems, warnings: [] };
  }
  const reader = new NodeReader((node) => node.resolve(first), locate);
  if (second !== undefined) {
    reader.warnings.push({ message: "only the first document of a file is read", location: locate(second.range[0]) });
  }
  if (first.contents === null) return { problems: [], warnings: reader.warnings };
  const value = reader.read(first.contents);
  return { ...(value === undefined ? {} : { value }), problems: reader.problems, warnings: reader.warnings };
}

/** Creates a problem that prevents a file from being read at all, with envoyproxy/ratelimit's message. */
export function loadingProblem(detail: string, location: SourceLocation | undefined): ConfigProblem {
  return { message: `error loading config file: ${detail}`, ...(location === undefined ? {} : { location }) };
}

class NodeReader {
  readonly problems: ConfigProblem[] = [];
  readonly warnings: ConfigProblem[] = [];
  readonly #resolve: (alias: Alias) => Node | undefined;
  readonly #locate: (offset: number) => SourceLocation;
  /** Nodes that are being read. An alias to one of them is a cycle. */
  readonly #open = new Set<Node>();
  /** Cached targets: resolving an alias walks the document, and there may be as many aliases as values. */
  readonly #targets = new Map<Alias, Node | undefined>();
  #values = 0;

  constructor(resolve: (alias: Alias) => Node | undefined, locate: (offset: number) => SourceLocation) {
    this.#resolve = resolve;
    this.#locate = locate;
  }

  read(node: Node): YamlValue | undefined {
    const location = this.#locate(node.range?.[0] ?? 0);
    this.#values++;
    if (this.#values > maxValues) {
      if (this.#values === maxValues + 1) {
        this.problems.push(loadingProblem(`more than ${maxValues} values, aliases counted as often as used`, location));
      }
      return undefined;
    }
    if (isAlias(node)) return this.#readAlias(node, location);
    if (node.tag !== undefined && !knownTags.has(node.tag)) {
      const tag = node.tag.replace("tag:yaml.org,2002:", "!!");
      this.problems.push(
        loadingProblem(
          `the tag ${tag} is not supported; accepted are !!str, !!int, !!float, !!bool and !!null`,
          location,
        ),
      );
      return undefined;
    }
    if (isScalar(node)) return readScalar(node, location);
    this.#open.add(node);
    const value = isMap(node) ? this.#readMap(node, location) : this.#readList(node, location);
    this.#open.delete(node);
    return value;
  }

  #readAlias(node: Alias, location: SourceLocation): YamlValue | undefined {
    if (!this.#targets.has(node)) this.#targets.set(node, this.#resolve(node));
    const target = this.#targets.get(node);
    if (target === undefined || this.#open.has(target)) {
      this.problems.push(loadingProblem(`alias *${node.source} does not refer to a value`, location));
      return undefined;
    }
    return this.read(target);
  }

  #readList(node: Node, location: SourceLocation): YamlValue {
    const items: YamlValue[] = [];
    for (const item of isSeq(node) ? node.items : []) {
      const value = item === null ? nullAt(location) : this.read(item as Node);
      if (value !== undefined) items.push(value);
    }
    return { kind: "list", items, location };
  }

  #readMap(node: YAMLMap, location: SourceLocation): YamlValue {
    const entries = new Map<string, YamlEntry>();
    const merged: YamlEntry[] = [];
    for (const pair of node.items) {
      const key = this.read(pair.key as Node);
      if (key === undefined) continue;
      if (key.kind !== "scalar") {
        this.problems.push({ message: "config error, key is not of type string", location: key.location });
        continue;
      }
      const value = pair.value === null ? nullAt(key.location) : this.read(pair.value as Node);
      if (value === undefined) continue;
      // The package reads `<<` as an ordinary key and would merge only when it converts to values without locations.
      if (key.text === "<<") {
        merged.push(...this.#mergedEntries(value));
      } else {
        if (entries.has(key.text)) {
          this.warnings.push({
            message: `key '${key.text}' is duplicate, the last one counts`,
            location: key.location,
          });
        }
        entries.set(key.text, { key, value });
      }
    }
    // Entries of the map itself win over merged ones, and an earlier merge wins over a later one.
    for (const entry of merged) if (!entries.has(entry.key.text)) entries.set(entry.key.text, entry);
    return { kind: "map", entries: [...entries.values()], location };
  }

  #mergedEntries(value: YamlValue): readonly YamlEntry[] {
    if (value.kind === "map") return value.entries;
    const maps = value.kind === "list" ? value.items : [value];
    return maps.flatMap((map) => {
      if (map.kind === "map") return map.entries;
      const message = "map merge requires map or sequence of maps as the value";
      this.problems.push(loadingProblem(message, map.location));
      return [];
    });
  }
}

function nullAt(location: SourceLocation): YamlScalar {
  return { kind: "scalar", type: "null", text: "", location };
}

function readScalar(node: Scalar, location: SourceLocation): YamlScalar {
  const text = typeof node.value === "string" ? node.value : "";
  const isPlain = node.type === "PLAIN" || node.type === undefined;
  const type = node.tag === undefined && isPlain ? plainType(text) : (taggedTypes[node.tag ?? ""] ?? "string");
  return { kind: "scalar", type, text: type === "null" ? "" : text, location };
}

/** `!` alone marks a scalar as a string. Other tags produce values that no setting has. */
const knownTags: ReadonlySet<string> = new Set([
  "!",
  ...["str", "int", "float", "bool", "null", "map", "seq"].map((name) => `tag:yaml.org,2002:${name}`),
]);

const taggedTypes: Readonly<Record<string, YamlScalar["type"]>> = {
  "tag:yaml.org,2002:int": "integer",
  "tag:yaml.org,2002:float": "float",
  "tag:yaml.org,2002:bool": "boolean",
  "tag:yaml.org,2002:null": "null",
};

const nullTexts = /^(?:|~|null|Null|NULL)$/;
const trueTexts = /^(?:y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON)$/;
const falseTexts = /^(?:n|N|no|No|NO|false|False|FALSE|off|Off|OFF)$/;
const integerTexts = /^[-+]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]*|[1-9][0-9_]*)$/;
const floatTexts =
  /^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;

function plainType(text: string): YamlScalar["type"] {
  if (nullTexts.test(text)) return "null";
  if (trueTexts.test(text) || falseTexts.test(text)) return "boolean";
  if (integerTexts.test(text)) return "integer";
  return floatTexts.test(text) ? "float" : "string";
}

/** Whether a boolean scalar is true. */
export function isTrue(scalar: YamlScalar): boolean {
  return trueTexts.test(scalar.text);
}

/**
 * Returns the value of an integer or float scalar; integers as Go reads them (`0x10`, `0b11`, `010` is eight, `1_000`).
 */
export function numberOf(scalar: YamlScalar): number {
  const text = scalar.text.replaceAll("_", "");
  if (scalar.type === "float") {
    return Number(text.replace(/\.inf$/i, "Infinity").replace(/\.nan$/i, "NaN"));
  }
  const sign = text.startsWith("-") ? -1 : 1;
  const digits = text.replace(/^[-+]/, "");
  return sign * Number(/^0[0-7]/.test(digits) ? `0o${digits.slice(1)}` : digits);
}
