/** All programs log in one format: lines of JSON with the same first and last fields, in the same order. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { gatewayManifest } from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

const pathOf = (file: string): string => fileURLToPath(new URL(`../../${file}`, import.meta.url));

/** The first line that a program logs; it is stopped with the test. */
async function firstLine(file: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(process.execPath, [pathOf(file), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  return line;
}

/** The kubeconfig of a cluster that does not respond. */
const unreachableCluster = `
apiVersion: v1
kind: Config
current-context: unreachable
contexts: [{ name: unreachable, context: { cluster: unreachable, user: unreachable } }]
clusters: [{ name: unreachable, cluster: { server: "https://127.0.0.1:1" } }]
users: [{ name: unreachable, user: {} }]
`;

const programs: readonly (readonly [string, string, () => Promise<readonly string[]>])[] = [
  [
    "the proxy",
    "proxy::",
    async () => {
      const proxy = await startProxy({ "a.yaml": gatewayManifest(await freePort()) }, ["--log-level", "debug"]);
      return proxy.log.map((line) => JSON.stringify(line));
    },
  ],
  [
    "the controller",
    "controller::",
    async () => {
      const [stats, readiness] = [await freePort(), await freePort()].map((port) => `127.0.0.1:${port}`);
      const pages = ["--stats-address", stats ?? "", "--readiness-address", readiness ?? ""];
      const args = [...pages, "--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one"];
      const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-"));
      onTestFinished(() => rm(folder, { recursive: true }));
      const kubeconfig = join(folder, "kubeconfig");
      await writeFile(kubeconfig, unreachableCluster);
      return [await firstLine("proxy/src/controller-main.ts", args, { KUBECONFIG: kubeconfig })];
    },
  ],
  [
    "the rate limit service",
    "ratelimit::",
    async () => {
      // As a user starts it, whatever defaults the helper sets.
      const service = await startRateLimitService(pathOf("examples/ratelimit/config"), { LOG_LEVEL: "debug" });
      onTestFinished(() => service.kill());
      return service.output;
    },
  ],
  ["the mock LLM", "mock-llm", async () => [await firstLine("examples/mock-llm/src/main.ts", [], { PORT: "0" })]],
];

test.each(programs)(
  "%s logs level, time, module, then other fields, and msg last",
  async (_, module, start) => {
    const lines = await start();
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) {
      const fields = JSON.parse(line) as Readonly<Record<string, unknown>>;
      const names = Object.keys(fields);
      expect([...names.slice(0, 3), names.at(-1)], line).toEqual(["level", "time", "module", "msg"]);
      expect(["trace", "debug", "info", "warn", "error"]).toContain(fields["level"]);
      expect(fields["time"]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect(fields["module"]).toMatch(new RegExp(`^${module}`));
    }
  },
  60_000,
);
