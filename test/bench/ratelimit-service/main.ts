/**
 * `npm run bench:ratelimit-service`: the bundled service and envoyproxy/ratelimit side by side on one machine and one
 * Redis, by CPU time per call. docs/benchmarks-ratelimit-service.md has the last full run.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { RunningProgram } from "../process.ts";
import { writeSection } from "../report.ts";
import { serviceCases, type ServiceCase } from "./cases.ts";
import { measureCase, type ServiceResult, soak } from "./measure.ts";
import { describeRun, renderStarts, renderTable, renderSoak } from "./report.ts";
import { startBenchRedis, startServices, untilResponds, writeLimits } from "./services.ts";
import { measureStarts } from "./start.ts";

const usage = `npm run bench:ratelimit-service -- [options]   compares ours with envoyproxy/ratelimit by CPU time per call

  --cases LIST     of ${serviceCases.map(({ name }) => name).join(", ")}   (default: all)
  --repeats N      rounds per case; each round loads both services once   (default 5)
  --seconds N      load per sample   (default 4)
  --soak MINUTES   instead: loads ours for this time and prints its memory
  --starts N       instead: starts each program N times, and prints its start and memory
  --help

A run with none of these writes its table to docs/benchmarks-ratelimit-service.md; so do --soak and --starts, with their own.`;

const page = join(import.meta.dirname, "../../../docs/benchmarks-ratelimit-service.md");

async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      cases: { type: "string" },
      repeats: { type: "string", default: "5" },
      seconds: { type: "string", default: "4" },
      soak: { type: "string" },
      starts: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(usage);
    return;
  }
  const cases = values.cases === undefined ? serviceCases : values.cases.split(",").map(caseOf);
  const options = { repeats: positive("--repeats", values.repeats), seconds: positive("--seconds", values.seconds) };
  if (values.starts !== undefined) {
    const text = renderStarts(await starts(positive("--starts", values.starts)));
    console.log(text);
    writeSection(page, "start", text);
    return;
  }
  await withServices(async (run) => {
    if (values.soak !== undefined) {
      const text = renderSoak(await run.soak(positive("--soak", values.soak)));
      console.log(text);
      writeSection(page, "soak", text);
      return;
    }
    const results = await run.compare(cases, options);
    const table = renderTable(results);
    console.log(`\n${table}`);
    if (args.length === 0) writeSection(page, "comparison", describeRun(options) + table);
  });
}

interface Run {
  compare(cases: readonly ServiceCase[], options: RunOptions): Promise<readonly ServiceResult[]>;
  soak(minutes: number): ReturnType<typeof soak>;
}

interface RunOptions {
  readonly repeats: number;
  readonly seconds: number;
}

async function starts(repeats: number): ReturnType<typeof measureStarts> {
  const folder = mkdtempSync(join(tmpdir(), "ratelimit-bench-"));
  const redis = await startBenchRedis();
  try {
    writeLimits(folder);
    return await measureStarts(folder, redis.port, repeats);
  } finally {
    await redis.program.stop();
    rmSync(folder, { recursive: true });
  }
}

/** Starts everything for `body` and stops it afterwards. */
async function withServices(body: (run: Run) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "ratelimit-bench-"));
  const running: RunningProgram[] = [];
  try {
    const redis = await startBenchRedis();
    running.push(redis.program);
    const services = await startServices(folder, redis.port, running);
    await body({
      async compare(cases, options) {
        const results: ServiceResult[] = [];
        for (const serviceCase of cases) {
          console.error(`${serviceCase.name}: ${options.repeats} rounds of ${options.seconds} s`);
          for (const service of services) await untilResponds(service, serviceCase);
          results.push(await measureCase(serviceCase, services, redis.program, { ...options, folder }));
        }
        return results;
      },
      async soak(minutes) {
        const [, ours] = services;
        const serviceCase = caseOf("redis-8x16-keys");
        if (ours === undefined) throw new Error("our service is not among the services");
        await untilResponds(ours, serviceCase);
        return soak(serviceCase, ours, minutes, folder);
      },
    });
  } finally {
    await Promise.all(running.map((program) => program.stop()));
    rmSync(folder, { recursive: true });
  }
}

function caseOf(name: string): ServiceCase {
  const found = serviceCases.find((each) => each.name === name);
  if (found !== undefined) return found;
  throw new Error(`--cases: no case "${name}"; there are ${serviceCases.map((each) => each.name).join(", ")}`);
}

function positive(option: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1) return value;
  throw new Error(`${option}: "${text}" is not a whole number of at least 1`);
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
