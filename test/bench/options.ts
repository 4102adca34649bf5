/** The command line of `npm run bench`. */
import { parseArgs } from "node:util";
import { benchCases, type BenchCase } from "./cases.ts";

export interface BenchOptions {
  readonly cases: readonly BenchCase[];
  readonly repeats: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  readonly workers: number;
  /** The figures are of programs that have not warmed up and are not to be believed. */
  readonly isQuick: boolean;
  /** Names of the peers to run; the first is the one that others are compared with. */
  readonly peers: readonly string[];
  /** Whether this is the whole comparison, whose table belongs into the docs. */
  readonly isFull: boolean;
}

export const usage = `npm run bench -- [options]   compares the proxy with Envoy by CPU time per request

  --cases LIST     of ${benchCases.map((each) => each.name).join(", ")}   (default: all)
  --repeats N      rounds per case; each round loads every peer once   (default 7)
  --seconds N      load per sample   (default 4)
  --workers N      worker threads of each peer   (default 1)
  --peers LIST     of envoy, ours; the first is the measure of the others   (default: envoy,ours)
  --quick          one round of 1 s: shows that everything runs, measures nothing
  --help

A run with none of these writes its table to docs/benchmarks.md; any other only prints it.`;

/** Parses the arguments; throws an error with the accepted values. Returns undefined when help was asked for. */
export function parseOptions(args: readonly string[]): BenchOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      cases: { type: "string" },
      repeats: { type: "string", default: "7" },
      seconds: { type: "string", default: "4" },
      workers: { type: "string", default: "1" },
      peers: { type: "string", default: "envoy,ours" },
      quick: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  return {
    cases: values.cases === undefined ? benchCases : values.cases.split(",").map(caseOf),
    repeats: values.quick ? 1 : positive("--repeats", values.repeats),
    seconds: values.quick ? 1 : positive("--seconds", values.seconds),
    warmUpSeconds: values.quick ? 1 : 4,
    workers: positive("--workers", values.workers),
    isQuick: values.quick,
    peers: values.peers.split(","),
    isFull: args.length === 0,
  };
}

function caseOf(name: string): BenchCase {
  const found = benchCases.find((each) => each.name === name);
  if (found !== undefined) return found;
  throw new Error(`--cases: no case "${name}"; there are ${benchCases.map((each) => each.name).join(", ")}`);
}

function positive(option: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1) return value;
  throw new Error(`${option}: "${text}" is not a whole number of at least 1`);
}
