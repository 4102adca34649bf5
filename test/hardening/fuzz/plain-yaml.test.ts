/**
 * Both readers of YAML on any text: a file that is read part by part has the values, and the fields the locations, that
 * the reader of all YAML finds in the whole text. A part that is read as plain YAML has no error.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { inspect, isDeepStrictEqual } from "node:util";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { expect } from "vitest";
import { stringify } from "yaml";
import type { FieldPath } from "../../../proxy/src/api/issue.ts";
import { documentParts, plainValue } from "../../../proxy/src/api/plain-yaml.ts";
import { DocumentLocator, type Locate, TextLines } from "../../../proxy/src/api/yaml-locations.ts";
import { readYaml, validValue } from "../../../proxy/src/api/yaml-text.ts";
import { fuzz } from "../support/fuzz.ts";

const path = "a.yaml";

/**
 * The values of a text with the locations of all fields, as the reader of all YAML finds them; undefined with an error.
 */
function readWhole(text: string): readonly unknown[] | undefined {
  const documents = readYaml({ path, text });
  if (documents.some(({ kind }) => kind === "unreadable")) return undefined;
  return documents.flatMap((document) => (document.kind === "read" ? located(document.value, document.locate) : []));
}

/** The same, part by part. */
function readParts(text: string): readonly unknown[] | undefined {
  const lines = new TextLines(text);
  const documents: unknown[] = [];
  for (const { from, to } of documentParts(text) ?? []) {
    const part = text.slice(from, to);
    const plain = plainValue(part);
    if (plain !== undefined) assertSame(part, plain.value, wholeValue(part));
    const read = runToEnd(validValue(part));
    if (read === undefined) return undefined;
    const { locate } = new DocumentLocator({ file: path, text, from, to, location: { file: path, ...lines.at(from) } });
    if (read.value !== null) documents.push(...located(read.value, locate));
  }
  return documents;
}

function assertSame(text: string, found: unknown, wanted: unknown): void {
  // `expect` sets fields named `__proto__` of the objects that it compares.
  if (!isDeepStrictEqual(found, wanted)) expect.fail(inspect({ text, found, wanted }, { depth: Infinity }));
}

function wholeValue(part: string): unknown {
  const [document, second] = readYaml({ path, text: part });
  if (document === undefined) return null;
  return document.kind === "read" && second === undefined ? document.value : document;
}

function located(value: unknown, locate: Locate): readonly unknown[] {
  // The text of a value has its fields in their order.
  const fields = [...pathsOf(value, [])].slice(0, 50);
  return [value, JSON.stringify(value), fields.map((field) => [field, locate(field), locate(field, true)])];
}

function* pathsOf(value: unknown, base: FieldPath): Generator<FieldPath> {
  yield base;
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) for (const [index, item] of value.entries()) yield* pathsOf(item, [...base, index]);
  else for (const [name, field] of Object.entries(value)) yield* pathsOf(field, [...base, name]);
}

const repository = join(import.meta.dirname, "../../..");

/** Parts of the manifests of the repository. */
const manifests = ["examples", "deploy", "proxy/src/translate/testdata"].flatMap((folder) =>
  readdirSync(join(repository, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".yaml") && !file.includes("{{"))
    .flatMap((file) => readFileSync(join(repository, folder, file), "utf8").split(/^---$/m))
    .filter((part) => part.length > 40 && part.length < 3_000),
);

/** Documents with what differs between versions and libraries of YAML. */
const unusual = [
  "a: &x {b: 1}\nc: *x\n<<: *x\n",
  "a: 0o17\nb: 017\nc: 0x1F\nd: 1_000\ne: 0b1\nf: +1\ng: -0\nh: 1e3\ni: .5\nj: 5.\nk: .inf\nl: -.INF\nm: .nan\nn: 1e999\n",
  "a: yes\nb: on\nc: Null\nd: ~\ne:\nf: TRUE\ng: y\nh: 2001-12-14t21:59:43.10-05:00\ni: 2001-12-14\nj: 12:30:45\nk: =\n",
  "a: !!str 1\nb: !!int '1'\nc: !x y\nd: !!binary aGk=\ne: !!timestamp 2001-12-14\nf: !!set {a, b}\n",
  "a: 1\na: 2\n",
  "? a\n: b\n? - c\n: d\n",
  "a: |\n  x\n   y\n\n  z\nb: >-\n  x\n  y\n\n    z\n  w\n\nc: |+\n  x\n\nd: |2-\n    x\n",
  "a: 'x\n  y\n\n  z'\nb: \"x\\\n  y\\u0041\\x41\\t\\/\"\nc: x\n  y\n  # z\nd: x #y\ne: x#y\n",
  "a: [x, y: z, {b: c, d}, 'e': f, \"g\":h, ]\nb: {i: [j,\n  k], l: , m}\nc: []\nd: {}\n",
  "a:\n- b\n- c: d\n  e: f\n-\n  - g\n- - h\n  - i\n-\n",
  '{a: 1, b: [c, d], "e": {"f": null}}\n',
  "# comment\n\na: 1 # more\n  # less\nb:\n  # c\n  c: 1\n# end\n",
  "'a': 1\n\"b\" : 2\n1: c\n1.0: d\nnull: e\ntrue: f\n: g\n",
  "__proto__: 1\nconstructor: {toString: 2}\n",
  "text\n",
  "- a\n- b\n",
  '"text"\n',
  "|\n text\n",
  "",
];

const fragments = [
  ...[
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a ",
    "!t ",
    "!!str ",
    "<<: ",
    "|\n",
    ">-\n",
    "|+1\n",
    "'",
    '"',
    "\\",
    "#",
    " # c\n",
    "{",
    "}",
  ],
  ...[
    "[",
    "]",
    ",",
    "---\n",
    "--- ",
    "...\n",
    "%YAML 1.1\n",
    "%TAG ! x:\n",
    "\t",
    "\r\n",
    "\r",
    "\ufeff",
    "\u0085",
    "\u2028",
  ],
  ...[
    "~",
    "null",
    "0o17",
    "1e3",
    "-0",
    ".5",
    "yes",
    "2001-12-14",
    "@",
    "`",
    "\0",
    "é",
    "😀",
    "\ud800",
    "\n",
    "\n\n",
    " ",
    "  ",
  ],
  ...[
    "a: ",
    "b:\n",
    "a: b\n",
    "  c: d\n",
    "- e\n",
    "__proto__: ",
    "''",
    '""',
    "[]",
    "{}",
    "x".repeat(1_030),
    " ".repeat(1_030),
  ],
];

interface Edit {
  readonly at: number;
  readonly removed: number;
  readonly added: string;
}

const edit = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  removed: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 4 })),
  added: fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...fragments) }, fc.constant("")),
});

function edited(text: string, { at, removed, added }: Edit): string {
  const from = Math.floor(at * (text.length + 1));
  return text.slice(0, from) + added + text.slice(from + removed);
}

const written = fc
  .tuple(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom("PLAIN", "QUOTE_DOUBLE", "QUOTE_SINGLE"), fc.boolean())
  .map(([value, defaultStringType, isFlow]) =>
    isFlow ? JSON.stringify(value, undefined, 1) : stringify(value, { defaultStringType, defaultKeyType: "PLAIN" }),
  );

const document = fc
  .tuple(
    fc.oneof(fc.constantFrom(...unusual), fc.constantFrom(...manifests), written),
    fc.oneof({ weight: 2, arbitrary: fc.array(edit, { maxLength: 1 }) }, fc.array(edit, { maxLength: 4 })),
  )
  .map(([text, edits]) => edits.reduce(edited, text));

const texts = fc
  .tuple(
    fc.array(document, { minLength: 1, maxLength: 3 }),
    fc.constantFrom("---\n", "--- # c\n", "\n---\n", "---\r\n"),
    fc.constantFrom("", "", "", "---\n", "\ufeff", "%YAML 1.2\n---\n"),
    fc.constantFrom("\n", "\n", "\r\n"),
  )
  .map(([documents, separator, start, end]) => (start + documents.join(separator)).replaceAll("\n", end));

fuzz("plain-yaml", {
  arbitrary: texts,
  check(text) {
    const parts = documentParts(text) === undefined ? undefined : readParts(text);
    if (parts !== undefined) assertSame(text, parts, readWhole(text));
  },
  quickRuns: 300,
});
