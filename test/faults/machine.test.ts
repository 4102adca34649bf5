/** The machine of the proxy: a full disk, and a clock that is set. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { faketimeLibrary } from "../support/fast-clock.ts";
import { policyManifest } from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { others, under } from "./support/fault.ts";
import { startBackendProcess } from "./support/servers.ts";
import { worldManifests } from "./support/world.ts";

const run = promisify(execFile);
const mainFile = join(import.meta.dirname, "../../proxy/src/main.ts");
const isRoot = process.getuid?.() === 0;

/** A file system of 1 MiB in memory, until the test ends; needs root. */
async function mountSmallDisk(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "small-disk-"));
  await run("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]);
  onTestFinished(async () => {
    await run("umount", ["--lazy", folder]);
    await rm(folder, { recursive: true, force: true });
  });
  return folder;
}

/** Fills the free space of a disk. */
async function fill(folder: string): Promise<void> {
  await writeFile(join(folder, "filler"), Buffer.alloc(2 * 1024 * 1024)).catch(() => undefined);
}

interface PlainProxy {
  readonly url: string;
  readonly port: number;
  hasEnded(): boolean;
}

/** The proxy as a program whose output goes to a file; `env` for libfaketime. */
async function startPlain(folder: string, port: number, log: string, env: NodeJS.ProcessEnv = {}): Promise<PlainProxy> {
  const [stats, readiness] = [await freePort(), await freePort()];
  const pages = ["--stats-address", `127.0.0.1:${stats}`, "--readiness-address", `127.0.0.1:${readiness}`];
  const output = await open(log, "w");
  const args = [mainFile, "--config-dir", folder, "--workers", "2", "--admin-address", "off", ...pages];
  const child = spawn(process.execPath, args, {
    stdio: ["ignore", output.fd, output.fd],
    env: { ...process.env, ...env },
  });
  await output.close();
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  });
  const isReady = () => fetch(`http://127.0.0.1:${readiness}/healthz/ready`).then(({ status }) => status === 200);
  await expect.poll(() => isReady().catch(() => false), { timeout: 60_000 }).toBe(true);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
  };
}

const hugeConfigMap = `---
apiVersion: v1
kind: ConfigMap
metadata: { name: huge, namespace: default }
data: { huge: "${"x".repeat(2 * 1024 * 1024)}" }
`;

const limit = 1_000_000;
const policy = policyManifest("p", "kind: HTTPRoute, name: chat", [`{ requests: ${limit}, unit: Hours }`]);
const remaining = async (url: string): Promise<number> =>
  Number((await fetch(url)).headers.get("x-ratelimit-remaining"));

test("a full disk under the log and the configuration, for 3 s", async ({ task, skip }) => {
  skip(!isRoot, "it needs root, to mount a small file system");
  const backend = await startBackendProcess();
  const port = await freePort();
  const disk = await mountSmallDisk();
  const manifest = join(disk, "all.yaml");
  await writeFile(manifest, worldManifests(port, { backend: backend.port, policies: [policy] }));
  const proxy = await startPlain(disk, port, join(disk, "log"));
  const seen = await under({
    port: () => port,
    async inject() {
      await fill(disk);
      // An edit without free space leaves a truncated file: here all of the route, and half of a ConfigMap.
      const edit = worldManifests(port, { backend: backend.port }) + hugeConfigMap;
      await expect(writeFile(manifest, edit)).rejects.toThrow("ENOSPC");
    },
    async repair() {
      await rm(join(disk, "filler"));
      await writeFile(manifest, worldManifests(port, { backend: backend.port, policies: [policy] }));
    },
  });
  const counted = limit - (await remaining(proxy.url)) - 1;
  task.meta.figures = seen.figures(`${seen.outcomes.length} served; ${counted} counted`);
  expect(proxy.hasEnded()).toBe(false);
  expect(others(seen.outcomes, "200")).toEqual([]);
  // The last valid configuration stays in use, with its limit.
  expect(counted).toBe(seen.outcomes.length);
});

describeWith(["faketime"], "clock steps", () => {
  test.for([
    ["forward", "+3600"],
    ["back", "-3600"],
  ] as const)("the clock is set %s by an hour, for 3 s", async ([, step], { task }) => {
    expect(faketimeLibrary, "faketime without its library").toBeDefined();
    const backend = await startBackendProcess();
    const port = await freePort();
    const folder = await mkdtemp(join(tmpdir(), "clock-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const manifestFolder = await mkdtemp(join(tmpdir(), "clock-config-"));
    onTestFinished(() => rm(manifestFolder, { recursive: true }));
    const offset = join(folder, "offset");
    await writeFile(offset, "+0\n");
    await writeFile(
      join(manifestFolder, "all.yaml"),
      worldManifests(port, { backend: backend.port, policies: [policy] }),
    );
    const proxy = await startPlain(manifestFolder, port, join(folder, "log"), {
      LD_PRELOAD: faketimeLibrary,
      FAKETIME_TIMESTAMP_FILE: offset,
      FAKETIME_NO_CACHE: "1",
      // A step of the wall clock does not change the monotonic one.
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    });
    const before = await remaining(proxy.url);
    const seen = await under({
      port: () => port,
      inject: () => writeFile(offset, `${step}\n`),
      repair: () => writeFile(offset, "+0\n"),
    });
    const counted = before - (await remaining(proxy.url)) - 1;
    task.meta.figures = seen.figures(`${seen.outcomes.length} allowed; ${counted} counted`);
    expect(others(seen.outcomes, "200")).toEqual([]);
    // Windows are measured by the monotonic clock: none ends early or late.
    expect(counted).toBe(seen.outcomes.length);
  });
});
