/**
 * `npm run bench`: this proxy and Envoy side by side on one machine, by CPU time per request. docs/benchmarks.md holds
 * the last full run and explains the method; `--help` lists the options.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { TestAuthority } from "../support/certificates.ts";
import { requireProgram } from "../support/programs.ts";
import { startBackends, type BackendPorts } from "./backend.ts";
import { type BenchCase, hostOfRoute, listenerNames, routeCount } from "./cases.ts";
import { type LimitPath, startLimitPath, startLimitService } from "./limit-service.ts";
import { describeObservation, describeRun, describeScale } from "./method.ts";
import { measureCase, type CaseResult } from "./measure.ts";
import { parseOptions, usage, type BenchOptions } from "./options.ts";
import { envoy } from "./peers/envoy.ts";
import {
  gatewayProxy,
  gatewayProxyAgain,
  tracedAll,
  tracedOnePercent,
  watched,
  withoutHeapSampling,
  withoutTraceHook,
} from "./peers/gateway-proxy.ts";
import type { ListenerPorts, Peer } from "./peers/peer.ts";
import { freePorts, startProgram, untilReady, type RunningProgram } from "./process.ts";
import { renderTable, writeSection } from "./report.ts";
import { validate } from "./validate.ts";

const peers: Readonly<Record<string, Peer>> = {
  envoy,
  ours: gatewayProxy,
  again: gatewayProxyAgain,
  watched,
  "no-hook": withoutTraceHook,
  "no-sampling": withoutHeapSampling,
  "traced-1": tracedOnePercent,
  "traced-all": tracedAll,
};

interface StartedPeer {
  readonly name: string;
  readonly program: RunningProgram;
  readonly listeners: ListenerPorts;
  /** Its own rate limit service and Redis; absent if no case uses them. */
  readonly path: LimitPath | undefined;
}

async function main(options: BenchOptions): Promise<void> {
  const chosen = options.peers.map((name) => {
    const peer = peers[name];
    if (peer === undefined) throw new Error(`--peers: no peer "${name}"; there are ${Object.keys(peers).join(", ")}`);
    return peer;
  });
  const folder = mkdtempSync(join(tmpdir(), "gateway-proxy-bench-"));
  const running: RunningProgram[] = [];
  const [loadBefore = 0] = loadavg();
  try {
    const results = await compare(chosen, options, folder, running);
    const table = renderTable(results, chosen[0]?.name ?? "");
    console.log(`\n${table}`);
    if (options.isQuick) console.log("\nA quick run only shows that everything runs; its results have no meaning.");
    if (options.isFull) publish(options, loadBefore, chosen, table);
  } finally {
    await Promise.all(running.map((program) => program.stop()));
    rmSync(folder, { recursive: true });
  }
}

/** Writes the text into the page of benchmarks, formatted as by `npm run format`. */
function publish(options: BenchOptions, loadBefore: number, chosen: readonly Peer[], table: string): void {
  const [section, words] = describe(options, chosen, loadBefore);
  const repository = join(import.meta.dirname, "../..");
  const page = join(repository, "docs/benchmarks.md");
  writeSection(page, section, words + table);
  execFileSync(join(repository, "node_modules/.bin/prettier"), ["--write", page], { cwd: repository });
}

/** Returns the name of the section of the page, and its text above the table. */
function describe(options: BenchOptions, chosen: readonly Peer[], loadBefore: number): readonly [string, string] {
  switch (options.comparison) {
    case "envoy":
      return ["proxy", describeRun(chosen, options, loadBefore)];
    case "scale":
      return ["scale", describeScale(options, loadBefore)];
    case "observation":
      return ["observation", describeObservation(options, loadBefore)];
  }
}

/** Starts everything, adding it to `running` for the caller to stop, and runs the cases one after the other. */
async function compare(
  chosen: readonly Peer[],
  options: BenchOptions,
  folder: string,
  running: RunningProgram[],
): Promise<readonly CaseResult[]> {
  const [staticPort = 0, streamPort = 0, webSocketPort = 0, limitServicePort = 0, collectorPort = 0] =
    await freePorts(5);
  const backends: BackendPorts = { staticPort, streamPort, webSocketPort };
  const certificate = new TestAuthority(requireProgram("openssl"), folder, "authority").issue("server", "IP:127.0.0.1");
  running.push(...startBackends(folder, backends), startLimitService(folder, limitServicePort));
  const sink = join(import.meta.dirname, "span-sink.ts");
  running.push(startProgram("span sink", process.execPath, [sink, String(collectorPort)]));
  const started: StartedPeer[] = [];
  const needsRoutes = options.cases.some(({ listener }) => listener === "routes");
  const hosts = Array.from({ length: needsRoutes ? routeCount : 1 }, (_, number) => hostOfRoute(number));
  const needsPaths = options.cases.some(({ listener }) => listener === "path");
  for (const peer of chosen) {
    const [adminPort = 0, ...listening] = await freePorts(1 + listenerNames.length);
    const own = join(folder, peer.name);
    mkdirSync(own);
    const listeners = portsOf(listening);
    const path = needsPaths
      ? await startLimitPath(peer.service, join(folder, `${peer.name}-path`), running)
      : undefined;
    const { workers } = options;
    const ports = { adminPort, collectorPort, limitServicePort };
    const setup = { folder: own, workers, listeners, hosts, backends, certificate, ...ports };
    const program = peer.start({ ...setup, ownServicePort: path?.port });
    running.push(program);
    await untilReady(program, () => peer.prepare?.({ ...setup, ownServicePort: path?.port }) ?? Promise.resolve());
    started.push({ name: peer.name, program, listeners, path });
  }
  const results: CaseResult[] = [];
  for (const benchCase of options.cases) {
    console.error(`${benchCase.name}: ${options.repeats} rounds of ${options.seconds} s`);
    results.push(await runCase(benchCase, started, backends, { ...options, folder }));
  }
  return results;
}

/** Returns the ports by listener. @param ports as many as there are listeners */
function portsOf(ports: readonly number[]): ListenerPorts {
  // Every listener has an entry.
  return Object.fromEntries(listenerNames.map((name, at) => [name, ports[at]])) as unknown as ListenerPorts;
}

async function runCase(
  benchCase: BenchCase,
  started: readonly StartedPeer[],
  backends: BackendPorts,
  options: BenchOptions & { readonly folder: string },
): Promise<CaseResult> {
  const backendPort = benchCase.path.startsWith("/v1/") ? backends.streamPort : backends.staticPort;
  const targets = started.map(({ name, program, listeners, path }) => ({
    name,
    programs: benchCase.listener === "path" && path !== undefined ? [program, ...path.programs] : [program],
    port: listeners[benchCase.listener],
  }));
  for (const { program, listeners } of started) {
    await untilReady(program, () => validate(benchCase, listeners[benchCase.listener], backendPort));
  }
  return measureCase(benchCase, targets, options);
}

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === undefined) console.log(usage);
  else await main(options);
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
