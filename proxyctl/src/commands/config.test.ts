import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { startAdmin } from "../testing/admin.ts";
import { sampleDump } from "../testing/dump.ts";
import { Captured, proxyctl } from "../testing/run.ts";

/** Runs `config …` against an admin server that has loaded the sample. */
async function config(...args: string[]) {
  const admin = await startAdmin({ "GET /config_dump": sampleDump });
  return await proxyctl(["config", ...args, "--address", admin.address]);
}

/** Saves a text to a file that is deleted after the test. */
async function saved(text: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "proxyctl-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const file = join(directory, "dump.json");
  await writeFile(file, text);
  return file;
}

describe("what is printed", () => {
  test.each([
    ["all", "table"],
    ["all", "yaml"],
    ["all", "json"],
    ["backends", "table"],
    ["backends", "wide"],
    ["backends", "yaml"],
    ["routes", "table"],
    ["routes", "wide"],
    ["policies", "table"],
    ["policies", "wide"],
  ])("config %s -o %s", async (view, format) => {
    const { exitCode, stdout, stderr } = await config(view, "-o", format);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    await expect(stdout).toMatchFileSnapshot(`testdata/config-${view}-${format}.txt`);
  });

  test("tables stay within the terminal, and cut nothing", async () => {
    const stdout = Object.assign(new Captured(), { isTTY: true, columns: 80 });
    const admin = await startAdmin({ "GET /config_dump": sampleDump });
    await proxyctl(["config", "all", "--address", admin.address], { stdout, env: { NO_COLOR: "1" } });
    expect(Math.max(...stdout.text.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
    await expect(stdout.text).toMatchFileSnapshot("testdata/config-all-80.txt");
  });

  test("the table of backends has the columns of the specification", async () => {
    const [head = "", first = ""] = (await config("backends")).stdout.split("\n");
    expect(head.split(/ +/)).toEqual(["TYPE", "NAME", "NAMESPACE", "ENDPOINT", "HEALTH", "REQUESTS", "LATENCY"]);
    expect(first.split(/ +/)).toEqual(["Backend", "openai", "default", "backend", "0.70", "40", "812.35ms"]);
  });

  test("YAML and JSON are the same data", async () => {
    const [yaml, json] = [await config("all", "-o", "yaml"), await config("all", "-o", "json")];
    expect(parse(yaml.stdout)).toEqual(JSON.parse(json.stdout));
  });

  test("a proxy that has loaded nothing says so", async () => {
    const admin = await startAdmin({ "GET /config_dump": { ...sampleDump, routes: [], backends: [], policies: [] } });
    const run = async (view: string) => (await proxyctl(["config", view, "--address", admin.address])).stdout;
    expect(await run("routes")).toBe("No routes are loaded.\n");
    expect(await run("backends")).toBe("No backends are loaded.\n");
    expect(await run("policies")).toBe("No policies are loaded.\n");
  });
});

describe("a proxy that serves several Gateways", () => {
  test("is shown as far as the one concerns that is named", async () => {
    const run = await config("all", "gateway/internal", "-n", "team", "-o", "yaml");
    expect(parse(run.stdout)).toMatchObject({
      listeners: [{ name: "team/internal/http", fault: "address in use" }],
      routes: [],
      policies: [],
    });
  });

  test("says which there are when it has no such Gateway", async () => {
    const { exitCode, stderr } = await config("routes", "gateway/webb");
    expect(exitCode).toBe(2);
    await expect(stderr).toMatchFileSnapshot("testdata/config-unknown-gateway.txt");
  });
});

describe("a saved dump", () => {
  test("is shown as a live one is", async () => {
    const dump = await config("dump");
    const file = await saved(dump.stdout);
    const live = await config("routes");
    expect(await proxyctl(["config", "routes", "--file", file])).toEqual(live);
    expect(await proxyctl(["config", "routes", "-f", "-"], { input: dump.stdout })).toEqual(live);
  });

  test("that is not JSON is reported", async () => {
    const noJson = await proxyctl(["config", "all", "--file", await saved("nothing")]);
    expect(noJson).toMatchObject({ exitCode: 2, stdout: "" });
    expect(noJson.stderr).toContain("it is not JSON");
    const other = await proxyctl(["config", "all", "--file", await saved("{}")]);
    expect(other.stderr).toContain("its field version is not as expected");
    const gone = await proxyctl(["config", "all", "--file", "/nowhere/dump.json"]);
    expect(gone.stderr).toContain("save a dump with: proxyctl config dump gateway/NAME > FILE");
  });
});

describe("an admin server that", () => {
  test("that is older than proxyctl is reported", async () => {
    const admin = await startAdmin({});
    const { exitCode, stderr } = await proxyctl(["config", "all", "--address", admin.address]);
    expect(exitCode).toBe(2);
    await expect(stderr.replaceAll(String(admin.port), "PORT")).toMatchFileSnapshot("testdata/admin-too-old.txt");
  });

  test("that does not exist is reported", async () => {
    const { exitCode, stderr } = await proxyctl(["config", "all", "--address", "127.0.0.1:1"]);
    expect(exitCode).toBe(2);
    await expect(stderr).toMatchFileSnapshot("testdata/admin-missing.txt");
  });

  test("that responds with an error has its message shown", async () => {
    const admin = await startAdmin({
      "GET /config_dump": (_, response) =>
        response.writeHead(403).end(JSON.stringify({ error: "host x is not allowed", hint: "use localhost" })),
    });
    const { stderr } = await proxyctl(["config", "all", "--address", admin.address]);
    expect(stderr).toBe(`error: request /config_dump from ${admin.address}: host x is not allowed\n  use localhost\n`);
  });
});

describe("wrong usage", () => {
  test.each([
    ["a resource of another form", ["config", "all", "web"]],
    ["a kind that has no proxy", ["config", "all", "service/web"]],
    ["an unknown command", ["config", "route"]],
    ["an unknown flag", ["config", "routes", "--namespac", "x"]],
    ["an unknown format", ["config", "routes", "-o", "xml"]],
    ["an address without a port", ["config", "routes", "--address", "localhost"]],
    ["a file and an address", ["config", "routes", "--address", ":15000", "--file", "x"]],
    ["a pod and an address", ["config", "routes", "--address", ":15000", "--pod", "x"]],
    ["an admin port out of range", ["config", "routes", "--admin-port", "70000"]],
    ["a level of no proxy", ["logging", "--address", "nowhere", "info"]],
    ["a profile that is too long", ["profile", "cpu", "--seconds", "301"]],
  ])("%s ends with 64 and words", async (name, args) => {
    const { exitCode, stdout, stderr } = await proxyctl(args);
    expect({ exitCode, stdout }).toEqual({ exitCode: 64, stdout: "" });
    await expect(stderr).toMatchFileSnapshot(`testdata/usage-${name.replaceAll(" ", "-")}.txt`);
  });
});
