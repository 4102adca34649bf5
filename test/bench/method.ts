/** The text around the table in docs/benchmarks.md: the environment, and how to read the table. */
import { execFileSync } from "node:child_process";
import { requireProgram } from "../support/programs.ts";
import { routeCount } from "./cases.ts";
import { describeCommit, describeMachine } from "./machine.ts";
import type { BenchOptions } from "./options.ts";
import type { Peer } from "./peers/peer.ts";

/**
 * The text above the table of a full run, with today's date.
 *
 * @param loadBefore the machine's load average before the run, by other programs.
 */
export function describeRun(peers: readonly Peer[], options: BenchOptions, loadBefore: number): string {
  const threads = options.workers === 1 ? "one worker thread" : `${options.workers} worker threads`;
  return `
## The proxy and Envoy

Written by \`npm run bench\` on ${new Date().toISOString().slice(0, 10)}, commit ${describeCommit()}.

- Machine: ${describeMachine()}. Load generator, backend and proxy share it. Its load
  average before the run was ${loadBefore.toFixed(1)}.
- Versions: ${[...peers.map((peer) => peer.version()), ...toolVersions()].join("; ")}.
- Setting: this proxy and its service as in their images (\`npm run bundle\`). Every peer has ${threads}, no access log,
  other settings at their defaults, and listens on 127.0.0.1. The backend is nginx with a fixed response of 1 KiB; event
  streams come from a small Node server.
- Method: per case a warm-up, then ${options.repeats} rounds of ${options.seconds} s in which the peers take turns, in each order. Before a case, each peer's
  response is compared with that of the backend. Any status other than 2xx, or a broken connection, ends the run.
- **CPU µs/request** is user and system time of the whole process with all its threads, divided by the completed
  requests: median (lowest–highest of the rounds). Compare this figure: it hardly depends on other load of the machine,
  while requests/s and latencies mostly show how busy the machine was.
- "Own service and Redis" adds the CPU time and memory of a dedicated rate limit service and Redis: the bundled
  service behind this proxy, envoyproxy/ratelimit without statistics behind Envoy.
- **× Envoy** pairs the two samples of one round and takes the median of the pairs; below 1 is cheaper than Envoy.

`.trimStart();
}

/** The text above the tables of many routes, keys, workers and connections, and of long bodies, with today's date. */
export function describeScale({ repeats, seconds, workers }: BenchOptions, loadBefore: number): string {
  return `
## Many routes, many keys, long bodies, several workers, idle connections

Written by \`npm run bench -- --scale\` on ${new Date().toISOString().slice(0, 10)}, commit ${describeCommit()}; method as above,
${repeats} rounds of ${seconds} s, ${workers} worker. Machine: ${describeMachine()}; load average before the run ${loadBefore.toFixed(1)}.

- Both proxies have all ${routeCount.toLocaleString("en")} routes in every case. Compare the case of routes with the plain one: the difference is the
  cost of the other routes for a request.
- Keys are values of a request header, each with a limit of its own. Envoy keeps them as dynamic descriptors.
- The figures of messages of 100 MB are for the whole message: 1 ms is 0.01 ns for a byte.
- In the cases with several workers, each peer is a process of its own with so many worker threads. They share two processors
  with the load and the backend, so requests/s do not grow with them.
- Idle connections are opened to a process that was just started, with one request on each. **Above** is the resident memory with
  them, less that after one connection. The proxy has a \`--max-client-memory\` for so many connections.

`.trimStart();
}

/** The text above the table of the cost of observability, with today's date. */
export function describeObservation({ repeats, seconds, workers }: BenchOptions, loadBefore: number): string {
  return `
## The cost of observability

Written by \`npm run bench -- --observation\` on ${new Date().toISOString().slice(0, 10)}, commit ${describeCommit()}; method as above,
${repeats} rounds of ${seconds} s, ${workers} worker. Machine: ${describeMachine()}; load average before the run ${loadBefore.toFixed(1)}.

- **ours** is the proxy as released, without a client of the admin server. A request checks one field for that.
- **watched, none matches** has an open \`/debug/trace\` with a condition that no request meets, but that is evaluated for each.
- **without the trace hook** is the same proxy, with all these checks removed from its sources as they are loaded.
- **without heap sampling** does not sample allocations, which \`/debug/pprof/heap\` shows.
- **ours, a second one** is the first again. It shows how much two runs of one program differ. A smaller difference, or
  one within the range of all rounds, is not significant.
- **× ours** below 1 would be a saving.

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
