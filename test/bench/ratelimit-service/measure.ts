/** The measurement: within a case the services take turns, so that other load on the machine affects both alike. */
import type { RunningProgram } from "../process.ts";
import type { ServiceCase } from "./cases.ts";
import { applyCalls } from "./load.ts";
import type { BenchService } from "./services.ts";

/** One service under load once. */
export interface ServiceSample {
  readonly userUsPerCall: number;
  readonly systemUsPerCall: number;
  /** CPU time of Redis for the same calls. */
  readonly redisUsPerCall: number;
  readonly callsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly residentBytes: number;
}

/** All rounds of one case, by service; each has as many samples as there were rounds. */
export interface ServiceResult {
  readonly serviceCase: ServiceCase;
  readonly samples: ReadonlyMap<string, readonly ServiceSample[]>;
}

export interface MeasureOptions {
  readonly repeats: number;
  /** Load per sample. */
  readonly seconds: number;
  readonly folder: string;
}

/** Load before the first sample, for compilers and connections. */
const warmUpSeconds = 3;

/** Warms both services up, then samples each once a round. */
export async function measureCase(
  serviceCase: ServiceCase,
  services: readonly BenchService[],
  redis: RunningProgram,
  options: MeasureOptions,
): Promise<ServiceResult> {
  const samples = new Map<string, ServiceSample[]>(services.map(({ name }) => [name, []]));
  const warmUp = { seconds: warmUpSeconds, folder: options.folder };
  for (const { grpcPort } of services) await applyCalls(serviceCase, grpcPort, warmUp);
  for (let round = 0; round < options.repeats; round++) {
    for (const service of services) {
      samples.get(service.name)?.push(await sampleOnce(serviceCase, service, redis, options));
    }
  }
  return { serviceCase, samples };
}

async function sampleOnce(
  serviceCase: ServiceCase,
  { program, grpcPort }: BenchService,
  redis: RunningProgram,
  { seconds, folder }: MeasureOptions,
): Promise<ServiceSample> {
  const [before, redisBefore] = [program.cpu(), redis.cpu()];
  const load = await applyCalls(serviceCase, grpcPort, { seconds, folder });
  const [after, redisAfter] = [program.cpu(), redis.cpu()];
  const redisUs = redisAfter.userUs + redisAfter.systemUs - redisBefore.userUs - redisBefore.systemUs;
  return {
    userUsPerCall: (after.userUs - before.userUs) / load.requests,
    systemUsPerCall: (after.systemUs - before.systemUs) / load.requests,
    redisUsPerCall: redisUs / load.requests,
    callsPerSecond: load.requests / load.seconds,
    p50Ms: load.p50Ms,
    p99Ms: load.p99Ms,
    residentBytes: program.residentBytes(),
  };
}

/** Memory of a service under load, over time. */
export interface SoakResult {
  readonly minutes: number;
  readonly calls: number;
  /** Resident memory at the end of each interval of load. */
  readonly residentBytes: readonly number[];
}

const intervalSeconds = 10;

/** Loads one service for `minutes`, with no pause longer than the change of the load generator. */
export async function soak(
  serviceCase: ServiceCase,
  { program, grpcPort }: BenchService,
  minutes: number,
  folder: string,
): Promise<SoakResult> {
  const residentBytes: number[] = [];
  let calls = 0;
  for (let stretch = 0; stretch < (minutes * 60) / intervalSeconds; stretch++) {
    const { requests } = await applyCalls(serviceCase, grpcPort, { seconds: intervalSeconds, folder });
    calls += requests;
    residentBytes.push(program.residentBytes());
  }
  return { minutes, calls, residentBytes };
}
