/** The words around the table in docs/benchmarks.md: what ran where, and how to read it. */
import { execFileSync } from "node:child_process";
import { requireProgram } from "../support/programs.ts";
import { describeCommit, describeMachine } from "./machine.ts";
import type { BenchOptions } from "./options.ts";
import type { Peer } from "./peers/peer.ts";

/**
 * The text above the table of a full run, dated today.
 *
 * @param loadBefore the machine's load average before the run: what it did besides.
 */
export function describeRun(peers: readonly Peer[], options: BenchOptions, loadBefore: number): string {
  const threads = options.workers === 1 ? "one worker thread" : `${options.workers} worker threads`;
  return `
## The proxy and Envoy

Written by \`npm run bench\` on ${new Date().toISOString().slice(0, 10)}, commit ${describeCommit()}.

- Machine: ${describeMachine()}. Load generator, backend and proxy share it; its load
  average before the run was ${loadBefore.toFixed(1)}.
- Versions: ${[...peers.map((peer) => peer.version()), ...toolVersions()].join("; ")}.
- Setting: every peer with ${threads}, access log off, everything else at its default, all on 127.0.0.1. The
  backend is nginx with a fixed answer of 1 KiB; event streams come from a small Node server.
- Method: per case a warm-up, then ${options.repeats} rounds of ${options.seconds} s in which the peers take turns. Before a case each peer's
  answer is compared with the backend's own; an answer other than 2xx or a broken connection ends the run.
- **CPU µs/request** is user and system time of the whole process with all its threads, divided by the requests
  answered: median (lowest–highest of the rounds). It is the figure to compare: what a request costs hardly depends on
  who else uses the machine, while requests/s and latencies here tell mostly how busy it was.
- "Own service and Redis" adds the CPU time and memory of a rate limit service and a Redis that nobody else uses: ours
  behind ours, envoyproxy/ratelimit without statistics behind Envoy.
- **× Envoy** pairs the two samples of one round and takes the median of the pairs; below 1 is cheaper than Envoy.

`.trimStart();
}

/** The text above the table of what it costs to be observable, dated today. */
export function describeObservation({ repeats, seconds, workers }: BenchOptions, loadBefore: number): string {
  return `
## What it costs to be observable

Written by \`npm run bench -- --observation\` on ${new Date().toISOString().slice(0, 10)}, commit ${describeCommit()}; machine and method as above,
${repeats} rounds of ${seconds} s, ${workers} worker, load average before the run ${loadBefore.toFixed(1)}.

- **ours** is the proxy as it ships, with nobody watching: a request looks at one field to see that.
- **watched, none matches** has an open \`/debug/trace\` whose condition no request meets, so that each is held against it.
- **without the trace hook** is the same proxy with every such look removed from its sources as they are loaded.
- **without heap sampling** does not sample what it allocates, from which \`/debug/pprof/heap\` is made.
- **ours, a second one** is the first again: how far two runs of one program differ. What is less than that, or lies
  within the range of all rounds, is no difference that this run could tell.
- **× ours** below 1 is what would be saved.

`.trimStart();
}

function toolVersions(): readonly string[] {
  const first = (command: string, args: readonly string[], pattern: RegExp): string => {
    // wrk prints its version with its usage and exits 1.
    const script = `"$@" 2>&1 || true`;
    const text = execFileSync("sh", ["-c", script, "sh", command, ...args], { encoding: "utf8" });
    return pattern.exec(text)?.[1] ?? "unknown";
  };
  return [
    `nginx ${first(requireProgram("nginx"), ["-v"], /nginx\/(\S+)/)}`,
    `wrk ${first(requireProgram("wrk"), ["-v"], /wrk (\S+)/)}`,
    `h2load ${first(requireProgram("h2load"), ["--version"], /nghttp2\/(\S+)/)}`,
  ];
}
