/**
 * `npm run bench`: this proxy and Envoy side by side on one machine, by CPU time per request. docs/benchmarks.md holds
 * the last full run and explains the method; `--help` lists the options.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { bundleAll } from "../../scripts/bundle.ts";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { bundlesVariable } from "../support/program-file.ts";
import { requireProgram } from "../support/programs.ts";
import { startBackends, type BackendPorts } from "./backend.ts";
import { type BenchCase, hostOfRoute, listenerNames, plain, routeCount } from "./cases.ts";
import { idleConnections, type IdleSample, measureIdle, renderIdle } from "./idle.ts";
import { type LimitPath, startLimitPath, startLimitService } from "./limit-service.ts";
import { describeObservation, describeRun, describeScale } from "./method.ts";
import { measureCase, type CaseResult } from "./measure.ts";
import { parseOptions, usage, type BenchOptions } from "./options.ts";
import { envoy } from "./peers/envoy.ts";
import {
  gatewayProxy,
  gatewayProxyAgain,
  tracedAll,
  tracedNone,
  tracedOnePercent,
  watched,
  withoutHeapSampling,
  withoutTraceHook,
} from "./peers/gateway-proxy.ts";
import type { ListenerPorts, Peer, PeerSetup } from "./peers/peer.ts";
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
  "traced-0": tracedNone,
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
    const needsSources = options.comparison === "observation" || options.profiles !== undefined;
    if (!needsSources) await bundlePrograms(join(folder, "images"));
    const surroundings = await startSurroundings(options, folder, running);
    const results = await compare(chosen, options, surroundings);
    const tables = results.length === 0 ? [] : [renderTable(results, chosen[0]?.name ?? "")];
    if (options.measuresIdle) tables.push(renderIdle(await compareIdle(chosen, options, surroundings)));
    const table = tables.join("\n\n");
    console.log(`\n${table}`);
    if (options.isQuick) console.log("\nA quick run only shows that everything runs; its results have no meaning.");
    if (options.isFull) publish(options, loadBefore, chosen, table);
  } finally {
    await Promise.all(running.map((program) => program.stop()));
    rmSync(folder, { recursive: true });
  }
}

/**
 * Starts the programs as in the images from now on. The variants of `--observation` change the sources, and profiles
 * name them.
 */
async function bundlePrograms(folder: string): Promise<void> {
  await bundleAll(folder);
  process.env[bundlesVariable] = folder;
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

/** The programs that all peers share, and what a peer is started with. */
interface Surroundings {
  readonly folder: string;
  readonly backends: BackendPorts;
  readonly certificate: Certificate;
  readonly limitServicePort: number;
  readonly collectorPort: number;
  readonly hosts: readonly string[];
  readonly needsPaths: boolean;
  readonly profiles: string | undefined;
  /** Gets all programs, for the caller to stop. */
  readonly running: RunningProgram[];
}

async function startSurroundings(
  { cases, profiles }: BenchOptions,
  folder: string,
  running: RunningProgram[],
): Promise<Surroundings> {
  const [staticPort = 0, streamPort = 0, webSocketPort = 0, limitServicePort = 0, collectorPort = 0] =
    await freePorts(5);
  const backends: BackendPorts = { staticPort, streamPort, webSocketPort };
  const certificate = new TestAuthority(requireProgram("openssl"), folder, "authority").issue("server", "IP:127.0.0.1");
  running.push(...startBackends(folder, backends), startLimitService(folder, limitServicePort));
  const sink = join(import.meta.dirname, "span-sink.ts");
  running.push(startProgram("span sink", process.execPath, [sink, String(collectorPort)]));
  const needsRoutes = cases.some(({ listener }) => listener === "routes");
  const hosts = Array.from({ length: needsRoutes ? routeCount : 1 }, (_, number) => hostOfRoute(number));
  const needsPaths = cases.some(({ listener }) => listener === "path");
  return { folder, backends, certificate, limitServicePort, collectorPort, hosts, needsPaths, profiles, running };
}

async function startPeer(
  peer: Peer,
  { folder, needsPaths, running, ...shared }: Surroundings,
  size: Pick<PeerSetup, "workers" | "connections">,
): Promise<StartedPeer> {
  const [adminPort = 0, ...listening] = await freePorts(1 + listenerNames.length);
  const own = mkdtempSync(join(folder, `${peer.name}-`));
  const listeners = portsOf(listening);
  const path = needsPaths ? await startLimitPath(peer.service, `${own}-path`, running) : undefined;
  const setup = { ...shared, ...size, folder: own, listeners, adminPort, ownServicePort: path?.port };
  const program = peer.start(setup);
  running.push(program);
  await untilReady(program, () => peer.prepare?.(setup) ?? Promise.resolve());
  return { name: peer.name, program, listeners, path };
}

/** Starts everything, adding it to `running` for the caller to stop, and runs the cases one after the other. */
async function compare(
  chosen: readonly Peer[],
  options: BenchOptions,
  surroundings: Surroundings,
): Promise<readonly CaseResult[]> {
  const startAll = async (workers: number): Promise<readonly StartedPeer[]> => {
    const started: StartedPeer[] = [];
    for (const peer of chosen) started.push(await startPeer(peer, surroundings, { workers }));
    return started;
  };
  const started = options.cases.length === 0 ? [] : await startAll(options.workers);
  const results: CaseResult[] = [];
  for (const benchCase of options.cases) {
    console.error(`${benchCase.name}: ${options.repeats} rounds of ${options.seconds} s`);
    const own = benchCase.workers === undefined ? undefined : await startAll(benchCase.workers);
    results.push(await runCase(benchCase, own ?? started, surroundings, options));
    for (const { program } of own ?? []) await program.stop();
  }
  return results;
}

/** Measures each peer in every round in a process of its own. */
async function compareIdle(
  chosen: readonly Peer[],
  { workers, repeats }: BenchOptions,
  surroundings: Surroundings,
): Promise<readonly IdleSample[]> {
  const samples: IdleSample[] = [];
  for (let round = 0; round < Math.min(repeats, idleRounds); round++) {
    for (const peer of chosen) {
      console.error(`idle: round ${round + 1}, ${peer.name}`);
      const { name, program, listeners } = await startPeer(peer, surroundings, {
        workers,
        connections: idleConnections,
      });
      await untilReady(program, () => validate(plain, listeners.plain, surroundings.backends.staticPort));
      samples.push(await measureIdle(name, program, listeners.plain));
      await program.stop();
    }
  }
  return samples;
}

/** A peer with all routes needs long on a busy machine. */
const readyMs = 120_000;

/** Memory varies little between processes. */
const idleRounds = 3;

/** Returns the ports by listener. @param ports as many as there are listeners */
function portsOf(ports: readonly number[]): ListenerPorts {
  // Every listener has an entry.
  return Object.fromEntries(listenerNames.map((name, at) => [name, ports[at]])) as unknown as ListenerPorts;
}

async function runCase(
  benchCase: BenchCase,
  started: readonly StartedPeer[],
  { backends, folder }: Surroundings,
  options: BenchOptions,
): Promise<CaseResult> {
  const backendPort = benchCase.path.startsWith("/v1/") ? backends.streamPort : backends.staticPort;
  const targets = started.map(({ name, program, listeners, path }) => ({
    name,
    programs: benchCase.listener === "path" && path !== undefined ? [program, ...path.programs] : [program],
    port: listeners[benchCase.listener],
  }));
  for (const { program, listeners } of started) {
    await untilReady(program, () => validate(benchCase, listeners[benchCase.listener], backendPort), readyMs);
  }
  return measureCase(benchCase, targets, { ...options, folder });
}

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === undefined) console.log(usage);
  else await main(options);
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
