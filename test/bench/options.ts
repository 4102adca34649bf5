/** The command line of `npm run bench`. */
import { parseArgs } from "node:util";
import { benchCases, type BenchCase, scaleCases } from "./cases.ts";

/**
 * The comparison: with Envoy, with Envoy under many routes and keys, or of the proxy with itself without observability.
 */
export type Comparison = "envoy" | "scale" | "observation";

export interface BenchOptions {
  readonly comparison: Comparison;
  readonly cases: readonly BenchCase[];
  readonly repeats: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  readonly workers: number;
  /** The programs have not warmed up, so the results have no meaning. */
  readonly isQuick: boolean;
  /** Whether to measure the memory of idle connections after the cases. */
  readonly measuresIdle: boolean;
  /** Names of the peers to run; the first is the one that others are compared with. */
  readonly peers: readonly string[];
  /** The folder for CPU profiles; absent: none are written. */
  readonly profiles: string | undefined;
  /** Whether this is the whole comparison, whose table is written to the docs. */
  readonly isFull: boolean;
}

export const usage = `npm run bench -- [options]   compares the proxy with Envoy by CPU time per request

  --observation    instead with itself: watched by a trace, without the hook of traces, without heap sampling
  --scale          under many routes and many keys, with long bodies, several workers and idle connections
  --cases LIST     of ${benchCases.map((each) => each.name).join(", ")}   (default: all; plain-8 with --observation)
                   with --scale also ${scaleCases.map((each) => each.name).join(", ")}, idle   (default: these)
  --repeats N      rounds per case; each round loads every peer once   (default 7; 31 with --observation)
  --seconds N      load per sample   (default 4; 2 with --observation)
  --warm-up N      seconds of load before the first round of a case   (default 4)
  --workers N      worker threads of each peer   (default 1)
  --peers LIST     of envoy, ours, again, watched, no-hook, no-sampling, traced-0, traced-1, traced-all; the first is the measure of the others
                   (default: envoy,ours; all but envoy with --observation)
  --profiles DIR   writes a CPU profile of each thread of this proxy, which then runs from its sources, and takes more time
  --quick          one round of 1 s: shows that everything runs, measures nothing
  --help

A run with none of these, or with --observation or --scale alone, writes its table to docs/benchmarks.md; any other only prints it.`;

/** In `--cases`, the measurement of idle connections, which is no case of requests. */
const idleCase = "idle";

/** The defaults, by comparison. */
const defaults: Readonly<Record<Comparison, Readonly<Record<"peers" | "cases" | "repeats" | "seconds", string>>>> = {
  envoy: { peers: "envoy,ours", cases: benchCases.map(({ name }) => name).join(","), repeats: "7", seconds: "4" },
  scale: {
    peers: "envoy,ours",
    cases: [...scaleCases.map(({ name }) => name), idleCase].join(","),
    repeats: "7",
    seconds: "4",
  },
  // Small differences: many short rounds, and few connections, so that requests do not queue on a busy machine.
  observation: { peers: "ours,again,watched,no-hook,no-sampling", cases: "plain-8", repeats: "31", seconds: "2" },
};

/** Parses the arguments; throws an error with the accepted values. Returns undefined for --help. */
export function parseOptions(args: readonly string[]): BenchOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      observation: { type: "boolean", default: false },
      scale: { type: "boolean", default: false },
      cases: { type: "string" },
      repeats: { type: "string" },
      seconds: { type: "string" },
      "warm-up": { type: "string", default: "4" },
      workers: { type: "string", default: "1" },
      peers: { type: "string" },
      profiles: { type: "string" },
      quick: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  const comparison = values.observation ? "observation" : values.scale ? "scale" : "envoy";
  const { peers, cases, repeats, seconds } = { ...defaults[comparison], ...values };
  const names = cases.split(",");
  return {
    comparison,
    cases: names.filter((name) => name !== idleCase).map(caseOf),
    measuresIdle: names.includes(idleCase),
    repeats: values.quick ? 1 : positive("--repeats", repeats),
    seconds: values.quick ? 1 : positive("--seconds", seconds),
    warmUpSeconds: values.quick ? 1 : positive("--warm-up", values["warm-up"]),
    workers: positive("--workers", values.workers),
    isQuick: values.quick,
    peers: peers.split(","),
    profiles: values.profiles,
    isFull: args.length === 0 || (args.length === 1 && ["--observation", "--scale"].includes(args[0] ?? "")),
  };
}

function caseOf(name: string): BenchCase {
  const all = [...benchCases, ...scaleCases];
  const found = all.find((each) => each.name === name);
  if (found !== undefined) return found;
  throw new Error(`--cases: no case "${name}"; there are ${[...new Set(all.map((each) => each.name))].join(", ")}`);
}

function positive(option: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1) return value;
  throw new Error(`${option}: "${text}" is not a whole number of at least 1`);
}
