/** Cases of `npm run bench:scale` without a cluster: a proxy that serves a folder with many routes. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { stringify } from "yaml";
import { programFile } from "../../support/program-file.ts";
import { startOwnProgram } from "../own-program.ts";
import { freePorts, type RunningProgram } from "../process.ts";
import { percentile } from "../statistics.ts";
import { type KubeObject, gatewayNamespace } from "./cluster.ts";
import type { StageTime } from "./file-stages.ts";
import {
  assertRunning,
  cpuMs,
  endpointsOf,
  fetchVersion,
  hostOf,
  type ObjectName,
  routeOf,
  serviceOf,
} from "./routes.ts";

/** How the objects of the routes are divided into files. */
interface Layout {
  readonly name: string;
  readonly fileOf: (at: ObjectName) => string;
}

export const layouts: readonly Layout[] = [
  { name: "a file for each namespace", fileOf: ({ namespace }) => `${namespace}.yaml` },
  { name: "a file for each route", fileOf: ({ namespace, name }) => `${namespace}/${name}.yaml` },
  { name: "one file", fileOf: () => "all.yaml" },
];

/** What a proxy needs for a folder. */
export interface FilesStart {
  readonly readyMs: number;
  readonly cpuMs: number;
  readonly residentBytes: number;
  /** The edit of one route: the milliseconds until it is served, and the processor time. */
  readonly editMs: number;
  readonly editCpuMs: number;
}

const namespaces = 50;
const edits = 3;

export function namesOf(count: number): readonly ObjectName[] {
  return Array.from({ length: count }, (_, n) => ({ namespace: `n${n % namespaces}`, name: `r${n}` }));
}

function textOf(objects: readonly KubeObject[]): string {
  return objects.map((object) => stringify(object)).join("---\n");
}

/** The texts of unchanged routes, which take longer to write than to read. */
const unchangedTexts = new Map<string, string>();

function unchangedTextOf(at: ObjectName): string {
  const text = unchangedTexts.get(at.name) ?? textOf(objectsOf(at, "1"));
  unchangedTexts.set(at.name, text);
  return text;
}

function objectsOf(at: ObjectName, version: string): readonly KubeObject[] {
  return [routeOf(at, version), serviceOf(at), endpointsOf(at, 1)];
}

function commonObjects(port: number, backendPort: number): readonly KubeObject[] {
  const listeners = [{ name: "http", port, protocol: "HTTP", allowedRoutes: { namespaces: { from: "All" } } }];
  const gateway = { namespace: gatewayNamespace, name: "web" };
  return [
    {
      ...{ apiVersion: "gateway.networking.k8s.io/v1", kind: "Gateway", metadata: gateway },
      spec: { gatewayClassName: "gateway-proxy", listeners },
    },
    ...Array.from({ length: namespaces }, (_, n) => ({
      ...{ apiVersion: "gatewayproxy.dev/v1alpha1", kind: "Backend", metadata: { namespace: `n${n}`, name: "echo" } },
      spec: { static: { host: "127.0.0.1", port: backendPort } },
    })),
  ];
}

/** A folder with the objects of routes. `write` writes a file again with another version of one route. */
class RouteFolder {
  readonly path = mkdtempSync(join(tmpdir(), "gateway-proxy-bench-files-"));
  readonly #files = new Map<string, ObjectName[]>();
  readonly #layout: Layout;

  constructor(
    layout: Layout,
    names: readonly ObjectName[],
    ports: { readonly listener: number; readonly backend: number },
  ) {
    this.#layout = layout;
    for (const at of names) {
      const file = layout.fileOf(at);
      const known = this.#files.get(file);
      if (known === undefined) this.#files.set(file, [at]);
      else known.push(at);
    }
    for (const { namespace } of names.slice(0, namespaces)) mkdirSync(join(this.path, namespace));
    writeFileSync(join(this.path, "common.yaml"), textOf(commonObjects(ports.listener, ports.backend)));
    for (const [file, at] of this.#files) this.#write(file, at, undefined);
  }

  write(edited: ObjectName, version: string): void {
    const file = this.#layout.fileOf(edited);
    this.#write(file, this.#files.get(file) ?? [], { edited, version });
  }

  #write(
    file: string,
    names: readonly ObjectName[],
    edit: { readonly edited: ObjectName; readonly version: string } | undefined,
  ): void {
    const texts = names.map((at) => (at === edit?.edited ? textOf(objectsOf(at, edit.version)) : unchangedTextOf(at)));
    writeFileSync(join(this.path, file), texts.join("---\n"));
  }

  remove(): void {
    rmSync(this.path, { recursive: true });
  }
}

function isReady(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get({ host: "127.0.0.1", port, path: "/healthz/ready", agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on("error", () => resolve(false));
  });
}

async function untilIdle(program: RunningProgram): Promise<void> {
  for (let before = cpuMs(program); ; ) {
    await delay(1_000);
    const now = cpuMs(program);
    if (now - before < 30) return;
    before = now;
  }
}

/** Starts the proxy on a folder of `count` routes. */
export async function measureFiles(layout: Layout, count: number, profiles: string | undefined): Promise<FilesStart> {
  const [listener = 0, stats = 0, readiness = 0] = await freePorts(3);
  const backend = createServer((incoming, response) => response.end(String(incoming.headers["x-version"])));
  await new Promise<void>((resolve) => backend.listen(0, "127.0.0.1", resolve));
  const address = backend.address();
  const backendPort = typeof address === "object" && address !== null ? address.port : 0;
  const names = namesOf(count);
  const folder = new RouteFolder(layout, names, { listener, backend: backendPort });
  const profiling = profiles === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", profiles];
  const startMs = performance.now();
  const proxy = startOwnProgram("proxy", [
    ...[...profiling, programFile("proxy", "proxy"), "--config-dir", folder.path, "--workers", "1"],
    ...["--listen-address", "127.0.0.1", "--admin-address", "off", "--access-log", "off"],
    ...["--stats-address", `127.0.0.1:${stats}`, "--readiness-address", `127.0.0.1:${readiness}`],
  ]);
  try {
    while (!(await isReady(readiness))) {
      assertRunning(proxy);
      await delay(20);
    }
    const start = { readyMs: performance.now() - startMs, cpuMs: cpuMs(proxy), residentBytes: proxy.residentBytes() };
    const servedMs: number[] = [];
    const costs: number[] = [];
    for (let edit = 0; edit < edits; edit++) {
      await untilIdle(proxy);
      const at = names[(edit * 7) % count] ?? { namespace: "n0", name: "r0" };
      const before = cpuMs(proxy);
      folder.write(at, `e${edit}`);
      const writtenMs = performance.now();
      for (let text = ""; text !== `e${edit}`; { text } = await fetchVersion(listener, hostOf(at))) {
        assertRunning(proxy);
        await delay(2);
      }
      servedMs.push(performance.now() - writtenMs);
      await untilIdle(proxy);
      costs.push(cpuMs(proxy) - before);
    }
    return { ...start, editMs: percentile(servedMs, 50), editCpuMs: percentile(costs, 50) };
  } finally {
    await proxy.stop();
    backend.closeAllConnections();
    backend.close();
    folder.remove();
  }
}

/** The stages of a start, each measured by itself in a new process. */
export async function measureStages(layout: Layout, count: number): Promise<readonly StageTime[]> {
  const [listener = 0, backend = 0] = await freePorts(2);
  const folder = new RouteFolder(layout, namesOf(count), { listener, backend });
  try {
    const program = join(import.meta.dirname, "file-stages.ts");
    return JSON.parse(execFileSync(process.execPath, [program, folder.path], { encoding: "utf8" })) as StageTime[];
  } finally {
    folder.remove();
  }
}

interface FilesOptions {
  readonly routes: number;
  /** Starts of each layout, of which the table has the medians. */
  readonly rounds: number;
  /** The folder for CPU profiles; undefined: none are written. */
  readonly profiles: string | undefined;
}

/** Measures all layouts, in turns, and returns their tables. */
export async function measureLayouts({ routes, rounds, profiles }: FilesOptions): Promise<string> {
  const starts = layouts.map((): FilesStart[] => []);
  const stages = layouts.map((): (readonly StageTime[])[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [at, layout] of layouts.entries()) {
      starts[at]?.push(await measureFiles(layout, routes, profiles));
      stages[at]?.push(await measureStages(layout, routes));
    }
  }
  const titles = ["", ...layouts.map(({ name }) => name)];
  const startRows = startFigures.map(([name, unit, of]) => [
    name,
    ...starts.map((all) => `${median(all, of)} ${unit}`),
  ]);
  const stageRows = (stages[0]?.[0] ?? []).map(({ stage }, row) => [
    stage,
    ...stages.map((all) => `${median(all, (times) => times[row]?.cpuMs ?? 0)} ms`),
  ]);
  const heading = `### ${routes.toLocaleString("en")} routes in a folder`;
  return [heading, tableOf(titles, startRows), stagesWords, tableOf(titles, stageRows)].join("\n\n");
}

const startFigures: readonly (readonly [name: string, unit: string, of: (start: FilesStart) => number])[] = [
  ["ready after", "ms", ({ readyMs }) => readyMs],
  ["CPU time until ready", "ms", (start) => start.cpuMs],
  ["memory when ready", "MiB", ({ residentBytes }) => residentBytes / 1024 ** 2],
  ["edit of one route, served after", "ms", ({ editMs }) => editMs],
  ["edit of one route, CPU time", "ms", ({ editCpuMs }) => editCpuMs],
];

const stagesWords = `CPU time of the stages of a start, one after the other in one thread of a new process (\`test/bench/scale/file-stages.ts\`):`;

function median<Sample>(samples: readonly Sample[], of: (sample: Sample) => number): string {
  return percentile(samples.map(of), 50).toFixed(0);
}

function tableOf(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(titles), line(titles.map((_, at) => (at === 0 ? "---" : "---:"))), ...rows.map(line)].join("\n");
}

/** @param written the words on the command, the day and the machine. */
export function describeFiles(written: string): string {
  return `## A folder of many routes

${written} A proxy with one worker serves a folder of HTTPRoutes, each with a hostname, two rules, a Service and an EndpointSlice, as in the
cases above. The figures are medians of several starts of the program as in its image, with the layouts in turns. An edit writes the file of the
route; the proxy waits 50 ms for further changes before it reads the folder.`;
}
