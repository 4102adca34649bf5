/**
 * `npm run layers`: compares every import with the tables of `.dependency-cruiser.mjs`, and prints one line for each
 * violation. The exit status is 1 if there are any.
 *
 * The check also fails if it has read fewer modules than git lists, and for each permission that no import uses.
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { cruise, type IConfiguration, type ICruiseResult } from "dependency-cruiser";
import extractConfig from "dependency-cruiser/config-utl/extract-depcruise-config";
import extractTsConfig from "dependency-cruiser/config-utl/extract-ts-config";

/** The findings under one root. */
export interface LayerReport {
  /** The number of listed modules that were read. */
  readonly moduleCount: number;
  /** One line per violation, sorted; empty if there is none. */
  readonly violations: readonly string[];
  /** The permissions of the tables that no import uses. */
  readonly unused: readonly string[];
}

/** A permission of the tables: modules whose path matches `from` may import what matches `to`. */
interface Permission {
  readonly from: string;
  readonly to: string;
  readonly name: string;
}

interface LayerTables {
  readonly permissions: readonly Permission[];
  readonly testPaths: readonly string[];
}

const repository = join(import.meta.dirname, "..");
const configPath = join(repository, ".dependency-cruiser.mjs");

/** Reads every TypeScript module below a `src` folder of `root` and reports the imports that break the tables. */
export async function checkLayers(root: string): Promise<LayerReport> {
  const config = await extractConfig(configPath);
  const listed = listModules(root);
  const { modules, summary } = await cruiseModules(root, listed, config);
  const read = new Set(modules.map((module) => module.source));
  const reasons = new Map(config.forbidden?.map((rule) => [rule.name, rule.comment]));
  const forbidden = summary.violations.map(({ from, to, rule, cycle }) => {
    const path = cycle?.map((step) => step.name).join(" → ") ?? to;
    // A folder without a row is one violation, however many imports its modules have.
    const where = rule.name.endsWith("-layer-without-row") ? `${dirname(from)}/` : `${from} → ${path}`;
    return `${where}: ${reasons.get(rule.name) ?? "forbidden"} (${rule.name})`;
  });
  const unread = findUnread(listed, read);
  return {
    moduleCount: listed.length - unread.length,
    violations: [...new Set([...forbidden, ...unread])].sort(),
    unused: findUnused(modules, (await import(configPath)) as LayerTables),
  };
}

function findUnused(modules: ICruiseResult["modules"], { permissions, testPaths }: LayerTables): readonly string[] {
  const shipped = modules.filter(({ source }) => !testPaths.some((each) => new RegExp(each).test(source)));
  const imports = shipped.flatMap(({ source, dependencies }) =>
    dependencies.flatMap(({ resolved, module }) => [resolved, module].map((to) => ({ from: source, to }))),
  );
  const isUsed = ({ from, to }: Permission): boolean => {
    const [source, target] = [new RegExp(from), new RegExp(to)];
    return imports.some((each) => source.test(each.from) && target.test(each.to));
  };
  return permissions.filter((permission) => !isUsed(permission)).map(({ name }) => name);
}

/** Returns a violation for each listed module that was not read. */
export function findUnread(listed: readonly string[], read: ReadonlySet<string>): readonly string[] {
  return listed.filter((path) => !read.has(path)).map((path) => `${path}: listed by git but not read by this check`);
}

/** Returns tracked and new modules, so that a violation is found before it is committed. */
function listModules(root: string): readonly string[] {
  // With :(glob), `**/` also matches zero folders, and so the files directly in src.
  const patterns = [":(glob)*/src/**/*.ts", ":(glob)*/src/**/*.tsx", ":(glob)examples/*/src/**/*.ts"];
  const args = ["ls-files", "--cached", "--others", "--exclude-standard", "--", ...patterns];
  const paths = execFileSync("git", args, { cwd: root, encoding: "utf8" }).split("\n");
  return [...new Set(paths)].filter((path) => path !== "" && existsSync(join(root, path)));
}

async function cruiseModules(root: string, paths: readonly string[], config: IConfiguration): Promise<ICruiseResult> {
  const { enhancedResolveOptions, ...options } = config.options ?? {};
  const { output } = await cruise(
    [...paths],
    { ...options, baseDir: root, validate: true, ruleSet: { forbidden: config.forbidden ?? [] } },
    enhancedResolveOptions,
    { tsConfig: extractTsConfig(join(repository, "tsconfig.json")) },
  );
  // Without an output type, the result is an object; only reporters return text.
  if (typeof output === "string") throw new Error(`dependency-cruiser returned text: ${output}`);
  return output;
}

if (import.meta.main) {
  const { moduleCount, violations, unused } = await checkLayers(repository);
  const all = [...violations, ...unused.map((name) => `${name}: no import uses this permission`)];
  for (const violation of all) console.error(violation);
  console.log(`layers: ${moduleCount} modules read, ${all.length} violations`);
  process.exitCode = all.length === 0 ? 0 : 1;
}
