/** The programs as the images run them: bundled, in a folder without anything else. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import proxyManifest from "../../proxy/package.json" with { type: "json" };
import serviceManifest from "../../ratelimit-service/package.json" with { type: "json" };
import { bundleAll } from "../../scripts/bundle.ts";
import type { BundledImage } from "../../scripts/bundled-programs.ts";
import { respondWith, startBackend } from "../support/backend.ts";
import { describeWith } from "../support/describe-with.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { bundlesVariable } from "../support/program-file.ts";
import { startProxy } from "../support/proxy-process.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const folder = mkdtempSync(join(tmpdir(), "bundles-"));
// Below no folder with node_modules, as in the image. Under CI and in a run of all files they are there already.
const bundles = process.env[bundlesVariable] ?? folder;
const programOf = (image: BundledImage, name: string): string => join(bundles, image, `${name}.js`);

beforeAll(async () => {
  if (bundles === folder) await bundleAll(folder);
});
afterAll(() => rmSync(folder, { recursive: true }));

const run = promisify(execFile);

describe("the rate limit service", () => {
  const start = async (env: Readonly<Record<string, string>>) => {
    const limits = mkdtempSync(join(folder, "limits-"));
    const limit = "rate_limit: {unit: year, requests_per_unit: 1}";
    writeFileSync(join(limits, "d.yaml"), `domain: d\ndescriptors: [{key: k, ${limit}}]\n`);
    const program = programOf("ratelimit-service", "ratelimit-service");
    const service = await startRateLimitService(limits, { BACKEND_TYPE: "memory", ...env }, [], [program]);
    onTestFinished(() => service.kill());
    return service;
  };

  test.each([["1"], ["2"]])(
    "responds to calls with %s worker(s), also those of /bin/ratelimit_client",
    async (workers) => {
      const { grpcPort } = await start({ WORKERS: workers });
      const client = connectRateLimit(grpcPort);
      onTestFinished(() => client.close());
      expect(await client.send({ domain: "d", descriptors: [descriptor("k=v")] })).toMatchObject({ overallCode: "OK" });

      const flags = ["-dial_string", `127.0.0.1:${grpcPort}`, "-domain", "d", "-descriptors", "k=v"];
      const result = await run(process.execPath, [programOf("ratelimit-service", "ratelimit-client"), ...flags]);
      expect(result.stdout).toContain('"overallCode":"OVER_LIMIT"');
    },
  );

  describeWith(["grpcurl"], "called by a tool that has only the port", ({ grpcurl }) => {
    test("describes its messages", async () => {
      const { grpcPort } = await start({});
      const { stdout } = await run(grpcurl, ["-plaintext", `127.0.0.1:${grpcPort}`, "list"]);
      expect(stdout).toContain("envoy.service.ratelimit.v3.RateLimitService");
    });
  });

  test("retries an xDS server until it responds", async () => {
    const program = programOf("ratelimit-service", "ratelimit-service");
    const env = { CONFIG_TYPE: "GRPC_XDS_SOTW", CONFIG_GRPC_XDS_SERVER_URL: "127.0.0.1:1", BACKEND_TYPE: "memory" };
    const listen = { HOST: "127.0.0.1", PORT: "0", GRPC_PORT: "0", DEBUG_PORT: "0", LOG_FORMAT: "json" };
    const child = spawn(process.execPath, [program], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...env, ...listen },
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const lines: string[] = [];
    createInterface(child.stdout).on("line", (line) => lines.push(line));
    const failures = (): number => lines.filter((line) => line.includes("no configuration from the xDS server")).length;
    // Only the attempts keep the process alive.
    await expect.poll(failures, { timeout: 40_000 }).toBeGreaterThan(1);
  });

  test("checks a folder of limits", async () => {
    const limits = mkdtempSync(join(folder, "limits-"));
    const check = programOf("ratelimit-service", "ratelimit-config-check");
    expect((await run(process.execPath, [check, "-config_dir", limits])).stdout).toContain("all rate limit configs ok");
  });
});

describe("the proxy", () => {
  test("serves requests with two workers", async () => {
    const backend = await startBackend(respondWith(200, "from the backend"));
    const port = await freePort();
    const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
    const files = { "all.yaml": manifests(gatewayManifest(port), backendManifest("b", backend.port), route) };
    const proxy = await startProxy(files, ["--workers", "2"], {}, undefined, programOf("proxy", "proxy"));
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("from the backend");
    const dump = await (await fetch(`${proxy.admin}/config_dump`)).json();
    expect(dump).toMatchObject({ version: { version: proxyManifest.version } });
  });

  test("reports the error that prevents the start", async () => {
    const missing = join(folder, "missing");
    const { code, stderr } = await failed(programOf("proxy", "proxy"), ["--config-dir", missing]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`cannot read the configuration folder "${missing}"`)]);
  });
});

describe("the controller", () => {
  test("reads the cluster", async () => {
    const kubeconfig = join(folder, "kubeconfig");
    writeFileSync(kubeconfig, kubeconfigOf(`https://127.0.0.1:${await freePort()}`));
    const [stats, readiness] = [await freePort(), await freePort()];
    const pages = ["--stats-address", `127.0.0.1:${stats}`, "--readiness-address", `127.0.0.1:${readiness}`];
    const args = [...pages, "--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one"];
    const child = spawn(process.execPath, [programOf("proxy", "controller"), ...args], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { KUBECONFIG: kubeconfig },
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [line] = (await once(createInterface(child.stdout), "line")) as [string];
    expect(JSON.parse(line)).toMatchObject({ module: "controller::lifecycle", msg: "reading the cluster" });
    await expect.poll(async () => (await fetch(`http://127.0.0.1:${readiness}/healthz/ready`)).status).toBe(503);
  });

  test("reports the error that prevents the start", async () => {
    const args = ["--proxy-image", "test/proxy:1"];
    const outcome = await failed(programOf("proxy", "controller"), args, { KUBECONFIG: join(folder, "missing") });
    expect(outcome).toMatchObject({ code: 1, stderr: expect.stringContaining("cannot use KUBECONFIG=") as string });
  });
});

test.each([
  ["proxy", "proxy", proxyManifest],
  ["proxy", "controller", proxyManifest],
  ["ratelimit-service", "ratelimit-service", serviceManifest],
] as const)("in the image %s, %s prints its version", async (image, name, { version }) => {
  expect((await run(process.execPath, [programOf(image, name), "--version"])).stdout).toBe(`${version}\n`);
});

test.each([
  ["proxy", ["@kubernetes/client-node", "re2js", "yaml", "zod", "pino"]],
  ["ratelimit-service", ["@redis/client", "@grpc/grpc-js", "yaml", "pino"]],
] as const)("the image %s has the licence of every package in it", (image, names) => {
  const licences = readFileSync(join(bundles, image, "THIRD-PARTY-LICENSES.txt"), "utf8");
  for (const name of names) expect(licences).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\([^)]+\\)$`, "m"));
  expect(licences).not.toContain("no licence is named");
});

test("stack traces name functions, and the file's comments name the sources", () => {
  const code = readFileSync(programOf("proxy", "proxy-worker"), "utf8");
  expect(code).toContain("// proxy/src/app/worker.ts");
  expect(code).toMatch(/^function \w{8,}\(/m);
});

const kubeconfigOf = (server: string): string => `
apiVersion: v1
kind: Config
current-context: c
contexts: [{ name: c, context: { cluster: c, user: u } }]
clusters: [{ name: c, cluster: { server: "${server}" } }]
users: [{ name: u, user: {} }]
`;

/** Runs a program that is expected to fail. */
function failed(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ readonly code: unknown; readonly stderr: string }> {
  return new Promise((resolve) => {
    const addresses = ["--stats-address", "127.0.0.1:0", "--readiness-address", "127.0.0.1:0"];
    execFile(process.execPath, [program, ...addresses, ...args], { env }, (error, _, stderr) =>
      resolve({ code: error?.code, stderr }),
    );
  });
}
