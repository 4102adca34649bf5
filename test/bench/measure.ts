/**
 * The measurement. Within a case the peers take turns (A B, B A, …), so that other load on the machine affects all of
 * them alike; results are compared within a round and never between cases.
 */
import type { BenchCase } from "./cases.ts";
import { applyLoad } from "./load.ts";
import type { CpuTime, RunningProgram } from "./process.ts";

/** A started peer and its port for one case. */
export interface Target {
  readonly name: string;
  /** The programs whose CPU time and memory are measured, together. */
  readonly programs: readonly RunningProgram[];
  readonly port: number;
}

/** One peer under load once. */
export interface Sample {
  readonly userUsPerRequest: number;
  readonly systemUsPerRequest: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly residentBytes: number;
}

/** All rounds of one case, by peer; every peer has as many samples as there were rounds. */
export interface CaseResult {
  readonly benchCase: BenchCase;
  readonly samples: ReadonlyMap<string, readonly Sample[]>;
}

export interface MeasureOptions {
  readonly repeats: number;
  /** Load per sample. */
  readonly seconds: number;
  /** Load before the first sample, for compilers, pools and caches. */
  readonly warmUpSeconds: number;
  readonly folder: string;
}

/** Warms every target up, then samples each once a round. */
export async function measureCase(
  benchCase: BenchCase,
  targets: readonly Target[],
  options: MeasureOptions,
): Promise<CaseResult> {
  const samples = new Map<string, Sample[]>(targets.map((target) => [target.name, []]));
  for (const target of targets) {
    await applyLoad(benchCase, target.port, options.warmUpSeconds, options.folder);
  }
  const backwards = targets.toReversed();
  for (let round = 0; round < options.repeats; round += 1) {
    // Each order in turn, so that a machine that becomes slower within a round puts no peer at a disadvantage.
    for (const target of round % 2 === 0 ? targets : backwards) {
      samples.get(target.name)?.push(await sampleOnce(benchCase, target, options));
    }
  }
  return { benchCase, samples };
}

async function sampleOnce(benchCase: BenchCase, target: Target, options: MeasureOptions): Promise<Sample> {
  const before = cpuOf(target);
  const load = await applyLoad(benchCase, target.port, options.seconds, options.folder);
  const after = cpuOf(target);
  return {
    userUsPerRequest: (after.userUs - before.userUs) / load.requests,
    systemUsPerRequest: (after.systemUs - before.systemUs) / load.requests,
    requestsPerSecond: load.requests / load.seconds,
    p50Ms: load.p50Ms,
    p99Ms: load.p99Ms,
    p999Ms: load.p999Ms,
    residentBytes: target.programs.reduce((sum, program) => sum + program.residentBytes(), 0),
  };
}

function cpuOf({ programs }: Target): CpuTime {
  const times = programs.map((program) => program.cpu());
  return {
    userUs: times.reduce((sum, { userUs }) => sum + userUs, 0),
    systemUs: times.reduce((sum, { systemUs }) => sum + systemUs, 0),
  };
}
