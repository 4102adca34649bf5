/** proxyctl as users get it: installed from the packed file, and as one executable. */
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { startKubeApi } from "../../proxyctl/src/kube/testing/kube-api.ts";
import { startAdmin } from "../../proxyctl/src/testing/admin.ts";
import { sampleDump } from "../../proxyctl/src/testing/dump.ts";
import { clientVersion } from "../../proxyctl/src/version.ts";

// A bundle is built, and processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000, hookTimeout: 240_000 });

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "proxyctl-packed-"));
const tarball = `gatewayproxy-proxyctl-${clientVersion}.tgz`;
const prefix = join(folder, "prefix");
const home = join(folder, "home");
const dist = join(prefix, "lib/node_modules/@gatewayproxy/proxyctl/dist");
/** A user's environment: our Node is the first on PATH, and the cache is in the home directory. */
const env = { PATH: `${dirname(process.execPath)}${delimiter}${process.env["PATH"] ?? ""}`, HOME: home };

beforeAll(() => {
  mkdirSync(home);
  const pack = join(root, "scripts/pack-proxyctl.ts");
  execFileSync(process.execPath, [pack, "--out", folder], { env: { ...env, HOME: homedir() }, stdio: "pipe" });
  // No registry is used: the file contains all dependencies.
  const install = ["install", "-g", "--prefix", prefix, "--registry", "http://127.0.0.1:1", `./${tarball}`];
  execFileSync("npm", install, { cwd: folder, env, stdio: "pipe" });
});
afterAll(() => rmSync(folder, { recursive: true }));

describe.each([
  ["installed from the packed file", join(prefix, "bin/proxyctl")],
  ["as one executable", join(folder, "proxyctl")],
])("proxyctl %s", (_, program) => {
  const run = async (args: readonly string[], cwd = home) => await attempt(program, args, { cwd, env });

  test("prints its version and that of its Node", async () => {
    expect(await run(["--version"])).toMatchObject({ exitCode: 0, stdout: `${clientVersion}\n`, stderr: "" });
    expect((await run(["version", "--client"])).stdout).toBe(
      `client   ${clientVersion}   node ${process.versions.node}\n`,
    );
  });

  test("resolves paths against the user's working directory", async () => {
    const quickstart = join(root, "examples/quickstart");
    const lone = await run(["validate", "-f", "limits.yaml"], quickstart);
    expect(lone).toMatchObject({ exitCode: 0 });
    expect(lone.stdout).toMatch(/^warning: limits\.yaml:\d+:\d+ ProxyPolicy/);
    expect(await run(["validate", "-f", "."], quickstart)).toMatchObject({
      exitCode: 0,
      stderr: "4 resources read, no problems\n",
    });
    const load = ["limits", "test", "-f", "limits.yaml", "--rate", "20/m", "--fail-on-deny"];
    expect(await run(load, quickstart)).toMatchObject({ exitCode: 1 });
  });

  test("reaches a proxy by its address and through the Kubernetes API", async () => {
    const admin = await startAdmin({ "GET /config_dump": sampleDump });
    const direct = await run(["config", "routes", "--address", admin.address]);
    expect(direct).toMatchObject({ exitCode: 0, stderr: "" });
    expect(direct.stdout).toContain("chat.example.com");
    const pods = [{ name: "web-a", gateway: "web", ports: { 15_000: admin.port } }];
    const api = await startKubeApi({ gateways: [{ name: "web" }], pods });
    const forwarded = await run(["config", "routes", "gateway/web", "--kubeconfig", api.kubeconfig]);
    expect(forwarded).toMatchObject({ exitCode: 0, stderr: "", stdout: direct.stdout });
  });

  test("shows a saved trace, and completes command lines", async () => {
    expect(await run(["trace", "--file", "/nowhere"])).toMatchObject({ exitCode: 2, stdout: "" });
    expect((await run(["__complete", "--", "config", "b"])).stdout).toBe("backends\n");
  });
});

const light: readonly (readonly [string, readonly string[]])[] = [
  ["--version", ["--version"]],
  ["--help", ["--help"]],
  ["a TAB", ["__complete", "--", "config", ""]],
  ["the help of a command", ["trace", "--help"]],
];
/** The entry, commander, and small modules; schemas, parsers and the Kubernetes client are separate chunks. */
const lightBytes = 100_000;

describe("the executable", () => {
  test.each(light)("loads the command tree and nothing else for %s", (_, args) => {
    const program = join(folder, "proxyctl");
    const scripts = scriptsCoveredBy(program, args);
    expect(scripts.map(({ url }) => url)).toContain(`${pathToFileURL(program).href}/proxyctl.js`);
    expect(scripts.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(lightBytes);
  });
});

describe("the installed program", () => {
  test.each(light)("loads the command tree and nothing else for %s", (_, args) => {
    const loaded = modulesLoadedBy(join(dist, "proxyctl.js"), args);
    const bytes = loaded.reduce((sum, file) => sum + readFileSync(file).length, 0);
    expect(loaded.length).toBeGreaterThan(1);
    expect(bytes).toBeLessThan(lightBytes);
  });

  test("stores compiled code in the user's own cache", async () => {
    rmSync(join(home, ".cache"), { recursive: true, force: true });
    await attempt(join(prefix, "bin/proxyctl"), ["--version"], { cwd: home, env });
    expect(existsSync(join(home, ".cache/proxyctl"))).toBe(true);
    const elsewhere = join(folder, "caches");
    await attempt(join(prefix, "bin/proxyctl"), ["--version"], {
      cwd: home,
      env: { ...env, XDG_CACHE_HOME: elsewhere },
    });
    expect(readdirSync(elsewhere)).toEqual(["proxyctl"]);
  });

  test("lists every licence of its code, and no dependency to install", () => {
    const licences = readFileSync(join(dist, "THIRD-PARTY-LICENSES.txt"), "utf8");
    for (const name of ["@kubernetes/client-node", "commander", "undici", "yaml", "zod"]) {
      expect(licences).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\([^)]+\\)$`, "m"));
    }
    expect(licences).not.toContain("no licence is named");
    const manifest = JSON.parse(readFileSync(join(dist, "../package.json"), "utf8")) as Record<string, unknown>;
    expect(Object.keys(manifest).filter((key) => /dependencies|scripts/i.test(key))).toEqual([]);
  });

  // A machine may have an older Node beside the one of the project.
  const older = (process.env["PATH"] ?? "")
    .split(delimiter)
    .map((each) => join(each, "node"))
    .find(isTooOld);
  test.runIf(older !== undefined)("reports a Node that is too old", () => {
    const run = spawnSync(older ?? "", [join(dist, "proxyctl.js"), "--version"], { encoding: "utf8" });
    expect(run).toMatchObject({ status: 2, stdout: "" });
    expect(run.stderr).toMatch(
      /^error: start with Node \d+\.\d+\.\d+ \(.*\): proxyctl needs at least 22\.19\n {2}install a newer Node, or/,
    );
  });
});

describe("from sources", () => {
  test("only the command tree is loaded for a completion", () => {
    const loaded = modulesLoadedBy(join(root, "proxyctl/src/main.ts"), ["__complete", "--", ""]);
    const parts = loaded.map((file) =>
      file.slice(root.length + 1).replace(/^node_modules\/((?:@[^/]+\/)?[^/]+)\/.*/, "$1"),
    );
    const ofTree =
      /^(proxyctl\/src\/(app|commands|options)\/|proxyctl\/src\/[\w-]+\.ts$|proxyctl\/src\/(terminal\/terminal-output|output\/controls)\.ts$|runtime\/|commander$)/;
    const heavy = parts.filter((part) => !ofTree.test(part));
    expect(heavy).toEqual(["proxyctl/package.json"]);
  });

  test("npm runs it with paths resolved against the user's working directory", async () => {
    const cwd = join(root, "examples/quickstart");
    const run = await attempt("npm", ["run", "--silent", "--prefix", root, "proxyctl", "--", "validate", "-f", "."], {
      cwd,
      env,
    });
    expect(run).toMatchObject({ exitCode: 0, stderr: "4 resources read, no problems\n" });
  });
});

interface Outcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, while servers of this process respond to it. */
function attempt(
  program: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(program, args, options, (error, stdout, stderr) => {
      const exitCode = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ exitCode, stdout, stderr });
    });
  });
}

/** The files of modules, without Node's own. */
function modulesLoadedBy(program: string, args: readonly string[]): readonly string[] {
  const list = join(mkdtempSync(join(folder, "loaded-")), "modules");
  const hook = `${list}.mjs`;
  writeFileSync(
    hook,
    `import { registerHooks } from "node:module";
import { appendFileSync } from "node:fs";
registerHooks({ load(url, context, next) { appendFileSync(${JSON.stringify(list)}, url + "\\n"); return next(url, context); } });
`,
  );
  onTestFinished(() => rmSync(dirname(list), { recursive: true }));
  execFileSync(process.execPath, ["--import", hook, program, ...args], { env, stdio: "pipe" });
  const urls = readFileSync(list, "utf8").trim().split("\n");
  return urls.filter((url) => url.startsWith("file:")).map((url) => decodeURI(url.slice("file://".length)));
}

interface Script {
  readonly url: string;
  /** In characters. */
  readonly length: number;
}

/** The executed scripts of an executable, without Node's own, by the coverage of V8. */
function scriptsCoveredBy(program: string, args: readonly string[]): readonly Script[] {
  const directory = mkdtempSync(join(folder, "covered-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  execFileSync(program, args, { env: { ...env, NODE_V8_COVERAGE: directory }, stdio: "pipe" });
  const [file = ""] = readdirSync(directory);
  const covered = JSON.parse(readFileSync(join(directory, file), "utf8")) as {
    readonly result: readonly {
      readonly url: string;
      readonly functions: readonly { readonly ranges: readonly { readonly endOffset: number }[] }[];
    }[];
  };
  return covered.result
    .filter(({ url }) => url.startsWith("file:"))
    .map(({ url, functions }) => ({
      url,
      length: Math.max(...functions.flatMap(({ ranges }) => ranges.map(({ endOffset }) => endOffset))),
    }));
}

function isTooOld(node: string): boolean {
  if (!existsSync(node)) return false;
  const [major = 0, minor = 0] = execFileSync(node, ["--version"], { encoding: "utf8" })
    .slice(1)
    .split(".")
    .map(Number);
  return major < 22 || (major === 22 && minor < 19);
}
