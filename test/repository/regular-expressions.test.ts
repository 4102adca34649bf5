/**
 * The regular expressions of the product take a time that is linear in the text, since clients, backends and tenants
 * choose most of the texts. Expressions in settings and resources run in RE2 and are not checked here.
 */
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { checkSync } from "recheck";
import ts from "typescript";
import { expect, onTestFinished, test, vi } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

interface Exception {
  readonly file: string;
  /** A part of its source; absent for the whole file. */
  readonly part?: string;
  readonly reason: string;
}

/** Expressions that are not linear, or that `recheck` cannot analyse. */
const exceptions: readonly Exception[] = [
  { file: "proxy/src/api/backend-tls-policy.ts", part: "^(System|", reason: "reads 253 characters at most" },
  { file: "proxy/src/offline/check-manifests.ts", part: "no listener", reason: "reads messages of the gateway" },
  {
    file: "proxy/src/llm/charging.ts",
    part: "count_tokens",
    reason: "not analysed by recheck; each of its alternatives is linear",
  },
  {
    file: "proxy/src/llm/deferred-work.ts",
    part: "tun(?:es?",
    reason: "not analysed by recheck; each of its alternatives is linear",
  },
  { file: "ratelimit-service/src/settings/kinds.ts", reason: "reads settings of an operator" },
  { file: "ratelimit-service/src/transport/http/rate-limit-json.ts", part: "{}[", reason: "reads a text that is JSON" },
  {
    file: "runtime/src/profiling/pprof.ts",
    part: "functionName",
    reason: "reads texts of V8 about the gateway's own functions",
  },
  { file: "runtime/src/log/redaction.ts", reason: "reads `maxShownLength` characters at most" },
];

interface Pattern {
  readonly file: string;
  readonly source: string;
  readonly flags: string;
}

const files = globSync("{proxy,runtime,ratelimit-service,admin-api,protos}/src/**/*.ts", { cwd: root }).filter(
  (file) => !file.endsWith(".test.ts") && !file.includes("/testing/"),
);

/** The literals of a file. */
function literalsOf(file: string): readonly Pattern[] {
  const found: Pattern[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf("/");
      found.push({ file, source: node.text.slice(1, end), flags: node.text.slice(end + 1) });
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, readFileSync(`${root}/${file}`, "utf8"), ts.ScriptTarget.Latest, true));
  return found;
}

/** The expressions that a module assembles when it is loaded. */
async function assembledIn(file: string): Promise<readonly Pattern[]> {
  const found: Pattern[] = [];
  const recording = new Proxy(RegExp, {
    construct(target, [source, flags = ""]: [string | RegExp, string?]) {
      if (typeof source === "string") found.push({ file, source, flags });
      return new target(source, flags);
    },
  });
  vi.resetModules();
  vi.stubGlobal("RegExp", recording);
  onTestFinished(() => {
    vi.unstubAllGlobals();
  });
  await import(pathToFileURL(`${root}/${file}`).href);
  vi.unstubAllGlobals();
  return found;
}

function isExcepted({ file, source }: Pattern): boolean {
  return exceptions.some((each) => each.file === file && source.includes(each.part ?? ""));
}

/** The result of each phase follows from its number of steps and not from the speed of the machine. */
const withoutTimeouts = { attackTimeout: null, incubationTimeout: null, seedingTimeout: null };

/** The expressions that are not linear, each with a text that shows it. */
function slowOf(patterns: readonly Pattern[]): readonly string[] {
  return patterns.flatMap((pattern) => {
    const { file, source, flags } = pattern;
    if (isExcepted(pattern)) return [];
    const result = checkSync(source, flags, { ...withoutTimeouts, timeout: 120_000 });
    if (result.status === "safe") return [];
    const attack = result.status === "vulnerable" ? `, such as with ${result.attack.pattern}` : "";
    return [`${file}: /${source}/${flags} is ${result.status}${attack}`];
  });
}

test("every literal is linear", { timeout: 300_000 }, () => {
  const literals = files.flatMap(literalsOf);
  expect(literals.length).toBeGreaterThan(150);
  expect(slowOf(literals)).toEqual([]);
});

test("every expression that a module assembles is linear", { timeout: 300_000 }, async () => {
  // `log-filter.ts` has one from a setting of an operator.
  const assembling = files.filter(
    (file) => !file.endsWith("/log-filter.ts") && readFileSync(`${root}/${file}`, "utf8").includes("new RegExp("),
  );
  const assembled: Pattern[] = [];
  for (const file of assembling) assembled.push(...(await assembledIn(file)));
  expect(assembled.length).toBeGreaterThan(20);
  expect(slowOf(assembled)).toEqual([]);
});
