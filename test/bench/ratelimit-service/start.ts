/** Start and memory of the service: as a bundle and from its sources, beside the reference and beside Node alone. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { bundle } from "../../../scripts/bundle.ts";
import { requireProgram } from "../../support/programs.ts";
import { rateLimitServiceCommand } from "../../support/ratelimit-process.ts";
import { startOwnProgram } from "../own-program.ts";
import { freePorts, type RunningProgram, startProgram, untilReady } from "../process.ts";
import { applyCalls } from "./load.ts";
import { serviceCases } from "./cases.ts";
import { serviceEnvironment } from "./services.ts";

/** One start of one program. */
export interface StartSample {
  readonly msToHealthy: number;
  readonly cpuMsToHealthy: number;
  /** Four seconds after the start: in all, and the part that is pages of the program's own file. */
  readonly idle: Memory;
  /** At the end of the load; undefined for Node alone. */
  readonly loaded: (Memory & { readonly callsPerSecond: number }) | undefined;
}

interface Memory {
  readonly residentBytes: number;
  readonly fileBytes: number;
}

interface Startable {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly kind: "node" | "reference" | "ours";
}

/** Serves health as the smallest program in Node does. */
const nodeAlone =
  "process.getBuiltinModule('http').createServer((_, response) => response.end()).listen(process.env.PORT, '127.0.0.1')";

const idleMs = 4_000;
/** The load under which memory is measured: the same on a fast machine and a slow one. */
export const loadedCallsPerSecond = 50_000;
const loadSeconds = 10;
/** Load before it: compilers work for some seconds, and return their memory some seconds later. */
const warmUpSeconds = 20;

/** Starts each program `repeats` times, in turns. @param folder has the configuration, and gets the bundle */
export async function measureStarts(
  folder: string,
  redisPort: number,
  repeats: number,
): Promise<ReadonlyMap<string, readonly StartSample[]>> {
  const image = join(folder, "image");
  await bundle("ratelimit-service", image);
  const flags = rateLimitServiceCommand().slice(0, -1);
  const [sources = ""] = rateLimitServiceCommand().slice(-1);
  const programs: readonly Startable[] = [
    { name: "Node alone, with an HTTP server", command: process.execPath, args: ["-e", nodeAlone], kind: "node" },
    { name: "reference", command: requireProgram("ratelimit"), args: [], kind: "reference" },
    { name: "ours, from sources", command: process.execPath, args: [...flags, sources], kind: "ours" },
    {
      name: "ours, as a bundle",
      command: process.execPath,
      args: [...flags, join(image, "ratelimit-service.js")],
      kind: "ours",
    },
  ];
  const samples = new Map<string, StartSample[]>(programs.map(({ name }) => [name, []]));
  for (let round = 0; round < repeats; round++) {
    for (const program of programs) samples.get(program.name)?.push(await startOnce(program, folder, redisPort));
  }
  return samples;
}

async function startOnce({ name, command, args, kind }: Startable, folder: string, redisPort: number) {
  const [grpcPort = 0, httpPort = 0, debugPort = 0] = await freePorts(3);
  const ports = { grpcPort, httpPort, debugPort };
  const env = serviceEnvironment(kind === "reference" ? "reference" : "ours", folder, redisPort, ports);
  const startMs = performance.now();
  const program = kind === "ours" ? startOwnProgram(name, args, env) : startProgram(name, command, args, env);
  try {
    await untilReady(program, async () => {
      const { ok, status } = await fetch(`http://127.0.0.1:${httpPort}/healthcheck`);
      if (!ok) throw new Error(`/healthcheck: ${status}`);
    });
    const msToHealthy = performance.now() - startMs;
    const { userUs, systemUs } = program.cpu();
    await delay(idleMs - Math.min(idleMs, performance.now() - startMs));
    const idle = memoryOf(program);
    const loaded = kind === "node" ? undefined : await loadOnce(program, grpcPort, folder);
    return { msToHealthy, cpuMsToHealthy: (userUs + systemUs) / 1_000, idle, loaded };
  } finally {
    await program.stop();
  }
}

async function loadOnce(program: RunningProgram, grpcPort: number, folder: string) {
  const serviceCase = serviceCases.find(({ name }) => name === "redis-8x16");
  if (serviceCase === undefined) throw new Error("no such case");
  const load = { callsPerSecond: loadedCallsPerSecond, folder };
  await applyCalls(serviceCase, grpcPort, { ...load, seconds: warmUpSeconds });
  const { requests, seconds } = await applyCalls(serviceCase, grpcPort, { ...load, seconds: loadSeconds });
  return { ...memoryOf(program), callsPerSecond: requests / seconds };
}

function memoryOf(program: RunningProgram): Memory {
  const [, kibibytes] = /^RssFile:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${program.pid}/status`, "utf8")) ?? [];
  return { residentBytes: program.residentBytes(), fileBytes: Number(kibibytes) * 1_024 };
}
