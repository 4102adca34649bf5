import { renderProblem } from "@gatewayproxy/runtime/problem";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ManifestFile, type ParsedManifests, parseManifests } from "./parse-manifests.ts";
import { locateProblems, resourceProblem } from "./resource-problem.ts";

function file(path: string, ...documents: readonly string[]): ManifestFile {
  return { path, text: documents.join("---\n") };
}

/** A Namespace is the smallest resource there is; its label makes versions tell apart. */
function namespace(name: string, version = "1"): string {
  return `apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ${name}\n  labels: {version: "${version}"}\n`;
}

const bad = (name: string) => namespace(name).replace('"1"', "1");

function contents({ resources }: ParsedManifests): readonly string[] {
  return resources.Namespace.map(({ metadata }) => `${metadata.name}@${metadata.labels["version"]}`).sort();
}

const lines = ({ problems }: ParsedManifests) => problems.map(renderProblem);

describe("parseManifests()", () => {
  test("reads all documents of all files, and JSON as well", () => {
    const json = {
      path: "c.json",
      text: '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"c","labels":{"version":"1"}}}',
    };
    const parsed = parseManifests([file("a.yaml", namespace("a"), namespace("b")), json]);
    expect(contents(parsed)).toEqual(["a@1", "b@1", "c@1"]);
    expect(parsed.problems).toEqual([]);
  });

  test.each([
    ["nothing", ""],
    ["comments", "# only a remark\n"],
    ["empty documents", "---\n---\n# nothing\n---\n"],
    ["null", "null\n"],
  ])("a file of %s holds no resource and no problem", (_, text) => {
    const parsed = parseManifests([{ path: "a.yaml", text }]);
    expect(parsed.inForce.size).toBe(0);
    expect(parsed.problems).toEqual([]);
  });

  test("a document that is not a map is reported", () => {
    expect(lines(parseManifests([{ path: "a.yaml", text: "hello\n" }]))).toEqual([
      "a.yaml:1:1: found text, accepted is a map with apiVersion, kind and metadata",
    ]);
  });

  test("a resource without a namespace belongs to default, one of the cluster to none", () => {
    const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
    const parsed = parseManifests([file("a.yaml", secret, namespace("n"))]);
    expect([...parsed.inForce.keys()]).toEqual(["Secret default/s", "Namespace n"]);
  });

  test("understands anchors, aliases and merge keys", () => {
    const text = `${namespace("a").replace("labels: {", "labels: &labels {")}---\n${namespace("b")}`.replace(
      'name: b\n  labels: {version: "1"}',
      'name: b\n  labels: {<<: {version: "7"}}',
    );
    expect(contents(parseManifests([{ path: "a.yaml", text }]))).toEqual(["a@1", "b@7"]);
  });
});

describe("a problem points", () => {
  const policy = [
    "apiVersion: gatewayproxy.dev/v1alpha1",
    "kind: ProxyPolicy",
    "metadata: {name: p}",
    "spec:",
    "  targetRefs:",
    "  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}",
    "  traffic:",
    "    rateLimit:",
    "      local:",
  ].join("\n");
  const at = (entry: string) =>
    lines(parseManifests([{ path: "conf/p.yaml", text: `# limits\n---\n${policy}\n${entry}\n` }]));

  test.each([
    ["at a wrong value", "      - {requests: 1, unit: Minute}", "conf/p.yaml:12:29 ", 'local[0].unit: found "Minute"'],
    [
      "at the name of an unknown field",
      "      - requests: 1\n        unit: Hours\n        burts: 5",
      "conf/p.yaml:14:9 ",
      "local[0].burts: unknown",
    ],
    ["at the object that lacks a field", "      - requests: 1", "conf/p.yaml:12:9 ", "local[0].unit: missing"],
    [
      "at the item that breaks a rule",
      "      - {unit: Hours}\n      - {unit: Hours}",
      "conf/p.yaml:13:9 ",
      "local[1]: found none",
    ],
    [
      "at the name of a field that holds more",
      "      - {unit: Hours, requests: [1]}",
      "conf/p.yaml:12:23 ",
      "local[0].requests: found a list",
    ],
  ])("%s", (_, entry, place, fault) => {
    const problem = at(entry).find((line) => line.startsWith(place));
    expect(problem).toContain(`${place}ProxyPolicy default/p spec.traffic.rateLimit.${fault}`);
  });

  test("at the field of a List's item, and at its path in the item", () => {
    const text = `apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: A}\n`;
    expect(lines(parseManifests([{ path: "l.yaml", text }]))).toEqual([
      expect.stringMatching(/^l\.yaml:6:20 Namespace A metadata\.name: found "A"/),
    ]);
  });

  test("at the place of a later step's finding", () => {
    const { inForce } = parseManifests([file("a.yaml", namespace("z"), namespace("a"))]);
    const found = resourceProblem("Namespace a", ["metadata", "labels", "version"], "too old");
    const gone = resourceProblem("Namespace gone", ["metadata"], "nowhere");
    expect(locateProblems([found, gone], inForce).map(renderProblem)).toEqual([
      "a.yaml:11:21 Namespace a metadata.labels.version: too old",
      "Namespace gone metadata: nowhere",
    ]);
  });
});

describe("broken YAML", () => {
  test.each([
    ["an open bracket", "a: [1\n", 2],
    ["a tab as indentation", "a:\n\tb: 1\n", 2],
    ["a field twice", "a: 1\nb: 2\na: 3\n", 3],
    ["an alias of nothing", "a: 1\nb: *missing\n", 2],
  ])("%s is reported with its line", (_, text, line) => {
    const parsed = parseManifests([{ path: "a.yaml", text }]);
    expect(lines(parsed)[0]).toMatch(new RegExp(`^a\\.yaml:${line}:\\d+: invalid YAML: `));
  });

  test("hides no other document of the file", () => {
    const parsed = parseManifests([file("a.yaml", namespace("a"), "x: [\n", namespace("b"))]);
    expect(contents(parsed)).toEqual(["a@1", "b@1"]);
    expect(parsed.problems).toHaveLength(1);
  });

  test("an error message quotes none of the text, which may be a secret", () => {
    const text =
      "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  apiKey: sk-canary\n  apiKey: sk-canary\n bad: x\n";
    expect(lines(parseManifests([{ path: "a.yaml", text }])).join()).not.toContain("canary");
  });

  test.each([
    ["nested without end", `apiVersion: v1\nkind: Namespace\nmetadata: ${"[".repeat(20_000)}`],
    ["nested too deeply", `a: ${"[".repeat(70)}${"]".repeat(70)}`],
    ["a node around itself", "&a\napiVersion: v1\nkind: Namespace\nmetadata: *a\n"],
    [
      "a bomb of aliases",
      `a: &a [x, x]\n${"bcdefghijk"
        .split("")
        .map((name, at) => `${name}: &${name} [${`*${"abcdefghij".charAt(at)}, `.repeat(9)}]`)
        .join("\n")}`,
    ],
  ])("%s is a problem, not an exception", (_, text) => {
    const parsed = parseManifests([{ path: "a.yaml", text }]);
    expect(parsed.inForce.size).toBe(0);
    expect(parsed.problems.length).toBeGreaterThan(0);
  });

  test("whatever the text is, it gives resources or problems and never an exception", () => {
    const fragment = fc.constantFrom(
      ..."apiVersion: |v1|kind: |Namespace|List|items: |metadata: |{|}|[|]|,|- |&a |*a|<<: |\n|\n  |---|\"|'|!!x |# |name: a".split(
        "|",
      ),
      ...["__proto__: ", "constructor: ", "0", "null", "\u0000", "\ufeff"],
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(fragment, fragment, fc.string()), { maxLength: 40 }), (parts) => {
        const { resources, problems } = parseManifests([{ path: "a.yaml", text: parts.join("") }]);
        expect(Array.isArray(resources.Namespace)).toBe(true);
        for (const { message } of problems) expect(message).not.toBe("");
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("a resource that is declared twice", () => {
  test("is taken from the first file by path, and the problem names both places", () => {
    const parsed = parseManifests([file("b.yaml", namespace("a", "2")), file("a.yaml", namespace("a", "1"))]);
    expect(contents(parsed)).toEqual(["a@1"]);
    expect(lines(parsed)).toEqual([
      "b.yaml:4:9 Namespace a: already declared at a.yaml:4:9; this declaration is ignored",
    ]);
  });

  test("stays with the first even where that is invalid", () => {
    const before = parseManifests([file("a.yaml", namespace("a", "1")), file("b.yaml", namespace("a", "2"))]);
    const parsed = parseManifests([file("a.yaml", bad("a")), file("b.yaml", namespace("a", "2"))], before);
    expect(contents(parsed)).toEqual(["a@1"]);
    expect(parsed.kept).toEqual(["Namespace a"]);
  });
});

describe("the previous version", () => {
  const before = parseManifests([file("a.yaml", namespace("a"), namespace("b")), file("dir/c.yaml", namespace("c"))]);
  const others = file("dir/c.yaml", namespace("c"));

  test.each([
    [
      "a bad resource keeps its last good version, and the others go on",
      [file("a.yaml", bad("a"), namespace("b", "2")), others],
      ["a@1", "b@2", "c@1"],
      ["Namespace a"],
    ],
    [
      "also when it has moved to another file",
      [file("z.yaml", bad("a"), namespace("b")), others],
      ["a@1", "b@1", "c@1"],
      ["Namespace a"],
    ],
    ["a resource that is deleted goes", [file("a.yaml", namespace("b")), others], ["b@1", "c@1"], []],
    ["a file that is deleted goes", [others], ["c@1"], []],
    [
      "a file that is no YAML keeps all its resources",
      [file("a.yaml", "x: ["), others],
      ["a@1", "b@1", "c@1"],
      ["Namespace a", "Namespace b"],
    ],
    [
      "a broken document keeps what may have been in it",
      [file("a.yaml", "x: [\n", namespace("b", "2")), others],
      ["a@1", "b@2", "c@1"],
      ["Namespace a"],
    ],
    [
      "so does one that has lost its name",
      [file("a.yaml", namespace("a").replace("  name: a\n", ""), namespace("b")), others],
      ["a@1", "b@1", "c@1"],
      ["Namespace a"],
    ],
    [
      "so does one whose kind is misspelt",
      [
        file("a.yaml", "apiVersion: gatewayproxy.dev/v1alpha1\nkind: Backends\nmetadata: {name: x}\n", namespace("b")),
        others,
      ],
      ["a@1", "b@1", "c@1"],
      ["Namespace a"],
    ],
    [
      "one of a kind that is not served keeps nothing",
      [
        file(
          "a.yaml",
          "apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {name: x}\n",
          namespace("b"),
        ),
        others,
      ],
      ["b@1", "c@1"],
      [],
    ],
    [
      "a broken document of another file keeps nothing of this one",
      [file("a.yaml", namespace("b")), file("dir/c.yaml", "x: [")],
      ["b@1", "c@1"],
      ["Namespace c"],
    ],
    [
      "a file that cannot be read keeps its resources",
      [{ path: "a.yaml", error: "permission denied" }, others],
      ["a@1", "b@1", "c@1"],
      ["Namespace a", "Namespace b"],
    ],
    [
      "a folder that cannot be read keeps the resources of its files",
      [file("a.yaml", namespace("a")), { path: "dir", error: "permission denied" }],
      ["a@1", "c@1"],
      ["Namespace c"],
    ],
    ["a folder whose name only begins alike keeps nothing", [{ path: "di", error: "permission denied" }], [], []],
  ])("%s", (_, files, expected, kept) => {
    const parsed = parseManifests(files, before);
    expect(contents(parsed)).toEqual(expected);
    expect(parsed.kept).toEqual(kept);
    // A version that is kept is never kept silently.
    if (kept.length > 0) expect(parsed.problems.length).toBeGreaterThan(0);
  });

  test("is kept as long as the text is invalid", () => {
    const first = parseManifests([file("a.yaml", bad("a"))], before);
    const second = parseManifests([file("a.yaml", "x: [")], first);
    expect(contents(second)).toEqual(["a@1"]);
    const third = parseManifests([file("a.yaml", namespace("a", "3"))], second);
    expect(contents(third)).toEqual(["a@3"]);
    expect(third.kept).toEqual([]);
  });

  test("a file whose text stays is not read again, and its order among the files is computed again", () => {
    const first = parseManifests([file("b.yaml", namespace("a", "2"), bad("x"))]);
    const second = parseManifests(
      [file("a.yaml", namespace("a", "1")), file("b.yaml", namespace("a", "2"), bad("x"))],
      first,
    );
    expect(second.files.get("b.yaml")).toBe(first.files.get("b.yaml"));
    expect(contents(second)).toEqual(["a@1"]);
    expect(lines(second)).toEqual([
      expect.stringContaining("b.yaml:4:9 Namespace a: already declared"),
      ...lines(first),
    ]);
  });

  test("is empty at first", () => {
    const parsed = parseManifests([file("a.yaml", bad("a"))]);
    expect(parsed.inForce.size).toBe(0);
    expect(parsed.problems).toHaveLength(1);
  });
});

describe("a rejected BackendTLSPolicy", () => {
  const policy = (hostname: string) =>
    [
      "apiVersion: gateway.networking.k8s.io/v1",
      "kind: BackendTLSPolicy",
      "metadata: {name: p}",
      "spec:",
      '  targetRefs: [{group: "", kind: Service, name: s}]',
      `  validation: {hostname: ${hostname}, wellKnownCACertificates: System}`,
    ].join("\n");
  const sound = file("a.yaml", policy("good.example"));
  const faulty = file("a.yaml", policy("Bad.example"));
  /** The host name of the policy in force; "rejected" for one of which only the targets remain. */
  const state = ({ resources }: ParsedManifests) =>
    resources.BackendTLSPolicy.map(({ spec }) => spec.validation?.hostname ?? "rejected");

  test("remains with its targets, and is not reported as kept", () => {
    const parsed = parseManifests([faulty]);
    expect(parsed.resources.BackendTLSPolicy[0]?.spec).toMatchObject({ targetRefs: [{ name: "s" }] });
    expect([state(parsed), parsed.kept, parsed.problems.length]).toEqual([["rejected"], [], 1]);
  });

  test.each([
    ["remains while its text is bad", [faulty, faulty], ["rejected"]],
    ["remains while its file is no YAML", [faulty, file("a.yaml", "x: [")], ["rejected"]],
    ["is in force once its text is good", [faulty, sound], ["good.example"]],
    ["stays as it last was good", [sound, faulty, faulty], ["good.example"]],
    ["goes with its text", [faulty, file("a.yaml")], []],
  ])("%s", (_, texts, expected) => {
    let parsed: ParsedManifests | undefined;
    for (const text of texts) parsed = parseManifests([text], parsed);
    expect(parsed && state(parsed)).toEqual(expected);
  });
});
