/**
 * Global setup of a test run: bundles the programs as in the images, for `programFile`, and compiles them once for all
 * processes of the run. A bundle starts with less than half of the processor time that the sources take, and with
 * compiled code with half of that. Both take some seconds, so they save time under CI and in a run of all files. A run
 * of named files, or one that watches for changes, starts the sources.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestProject } from "vitest/node";
import { bundleAll } from "../../scripts/bundle.ts";
import { freePort } from "./free-port.ts";
import { bundlesVariable, compiledVariable, programFile } from "./program-file.ts";

/** Processes that run tests inherit the environment. */
export async function setup(project: TestProject): Promise<(() => void) | undefined> {
  // Each project of vitest.config.ts has this setup.
  if (process.env[bundlesVariable] !== undefined || !needsBundles(project)) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "gatewayproxy-bundles-"));
  execFileSync(process.execPath, ["scripts/build-page.ts"], { stdio: "pipe" });
  await bundleAll(folder);
  process.env[bundlesVariable] = folder;
  process.env[compiledVariable] = join(folder, "compiled");
  const starts = startsToCompile(join(folder, "configuration"), await freePort());
  await Promise.all(starts.map(runOnce));
  return () => rmSync(folder, { recursive: true });
}

/** Whether a run is under CI, or is one of all files: its command line names none. */
function needsBundles({ config }: TestProject): boolean {
  if (process.env["CI"] === "true") return true;
  const [, , ...args] = process.argv;
  return !config.watch && args.every((arg) => arg === "run" || arg.startsWith("-"));
}

/** A start of a program that loads all of its code. */
interface Start {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Part of the line of its log after which it has loaded its code. */
  readonly until: string;
}

/** @param port a free one, which the proxy listens on */
function startsToCompile(folder: string, port: number): readonly Start[] {
  const [manifests, limits, kubeconfig] = [
    join(folder, "manifests"),
    join(folder, "limits"),
    join(folder, "kubeconfig"),
  ];
  for (const each of [manifests, limits]) mkdirSync(each, { recursive: true });
  writeFileSync(join(manifests, "gateway.yaml"), gatewayOn(port));
  writeFileSync(kubeconfig, nowhere);
  const anyPort = "127.0.0.1:0";
  const pages = ["--stats-address", anyPort, "--readiness-address", anyPort];
  return [
    {
      program: programFile("proxy", "proxy"),
      args: ["--config-dir", manifests, "--workers", "1", "--admin-address", anyPort, ...pages],
      env: {},
      until: '"msg":"ready"',
    },
    {
      program: programFile("proxy", "controller"),
      args: ["--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one", ...pages],
      env: { KUBECONFIG: kubeconfig },
      until: "ECONNREFUSED",
    },
    {
      program: programFile("ratelimit-service", "ratelimit-service"),
      args: ["--config-dir", limits],
      env: {
        ...{ HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", PORT: "0", GRPC_PORT: "0", DEBUG_PORT: "0" },
        ...{ BACKEND_TYPE: "memory", WORKERS: "2", LOG_FORMAT: "json", SHUTDOWN_DRAIN_DELAY: "0" },
      },
      until: '"msg":"ready"',
    },
  ];
}

const gatewayOn = (port: number): string => `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: gateway-proxy }
spec: { controllerName: gatewayproxy.dev/controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  listeners: [{ name: http, protocol: HTTP, port: ${port} }]
`;

/** The kubeconfig of an API server that is not there. */
const nowhere = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{ name: c, context: { cluster: c, user: u } }]
clusters: [{ name: c, cluster: { server: "https://127.0.0.1:1" } }]
users: [{ name: u, user: {} }]
`;

/** Runs a program until its line, and ends it by SIGTERM: Node writes compiled code only at an orderly end. */
async function runOnce({ program, args, env, until }: Start): Promise<void> {
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
    // A program that does not become ready fails the run with its output.
    timeout: 120_000,
    killSignal: "SIGKILL",
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    createInterface(stream).on("line", (line) => {
      // A second signal would end it at once.
      if (line.includes(until) && !output.includes(until)) child.kill("SIGTERM");
      output += `${line}\n`;
    });
  }
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${program} ended with ${String(code)} before it was ready:\n${output}`);
}
