/**
 * Measures `--state-dir`, without the network: `npm exec -- node test/bench/micro/saved-counters.ts [COUNTERS]`. Prints
 * the time in which a process reads its counters at the start (1,000,000 by default, a third of each kind of window),
 * the time in which it saves changes, the start with a file to which all counters were added again, and what a decision
 * takes with and without saved counters.
 */
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readBoot } from "@gatewayproxy/runtime/boot-time";
import { systemClock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { RequestView } from "../../../proxy/src/cel/request-view.ts";
import { SavedCounters } from "../../../proxy/src/app/saved-counters.ts";
import type { LocalLimit } from "../../../proxy/src/ir/limit.ts";
import { CounterTable, createCounters } from "../../../proxy/src/policy/ratelimit/counter-table.ts";
import { compileLimits } from "../../../proxy/src/policy/ratelimit/local-limiter.ts";

const counters = Number(process.argv[2] ?? 1_000_000);
const maxCounters = counters * 2;
/** How many counters change after each start. */
const changes = [20_000, counters, 0];

const limits: readonly LocalLimit[] = [
  { window: undefined, unit: "Days" },
  { window: { kind: "Sliding" }, unit: "Hours" },
  { window: { kind: "Calendar", timeZone: "Europe/Berlin" }, unit: "Months" },
].map(({ window, unit }, entry) => {
  return {
    ...{ policy: "default/p", target: "HTTPRoute/default/r", entry, counter: `counter ${entry}`, mode: "Enforce" },
    ...{ counts: "requests", amount: 1_000_000, burst: 0, unit, key: 'request.headers["x-client"]' },
    ...(window !== undefined && { window }),
  } as LocalLimit;
});

function requestOf(client: number): RequestView {
  return {
    ...{ method: "GET", path: "/", authority: "a.test", scheme: "http", sourceAddress: "192.0.2.7" },
    ...{ rawHeaders: ["x-client", `client-${client}@example.com`], route: "default/r", gateway: "default/g" },
  };
}

const log = new Proxy({}, { get: () => () => undefined }) as Logger;
const directory = await mkdtemp(join(tmpdir(), "state-"));

async function open(): Promise<SavedCounters> {
  const opened = await SavedCounters.open({
    ...{ directory, clock: systemClock, boot: readBoot(), random: Math.random, log },
    onSaved: () => undefined,
    onFailure: () => undefined,
  });
  if (!opened.ok) throw new Error(opened.problems.map(({ message }) => message).join("; "));
  return opened.value;
}

/** Prints the time of `run`, and the CPU time of this thread in it: other processes lengthen the first alone. */
async function measure<T>(what: string, run: () => Promise<T>): Promise<T> {
  const [startMs, startCpu] = [performance.now(), process.threadCpuUsage()];
  const result = await run();
  const ms = performance.now() - startMs;
  const { user, system } = process.threadCpuUsage(startCpu);
  const cpuMs = (user + system) / 1_000;
  console.log(`${what.padEnd(60)} ${ms.toFixed(0).padStart(7)} ms, CPU ${cpuMs.toFixed(0).padStart(6)} ms`);
  return result;
}

/** Counts a request of each of the first `clients` clients. */
function count(table: CounterTable, clients: number): void {
  const nowMs = systemClock.monotonicMs();
  const sets = limits.map((limit) => compileLimits([limit], table));
  for (let client = 0; client < clients; client++) sets[client % sets.length]?.decide(requestOf(client), nowMs);
}

const first = await open();
const memory = createCounters(maxCounters, 2, first.seed);
await first.start(memory, 9);
count(new CounterTable(memory, 1), counters);
await measure(`save ${counters} new counters`, () => first.save());
await first.close();

const second = await open();
await second.close();
for (const changed of changes) {
  const nextMemory = createCounters(maxCounters, 2, second.seed);
  const { size } = await stat(join(directory, "counters"));
  const saved = await measure(`start with ${counters} counters, a file of ${size} bytes`, async () => {
    const next = await open();
    await next.start(nextMemory, 9);
    return next;
  });
  const restored = [...new CounterTable(nextMemory, 1).entries(systemClock.monotonicMs())].length;
  if (restored < counters * 0.98) throw new Error(`${restored} of ${counters} counters were restored`);
  if (changed > 0) {
    count(new CounterTable(nextMemory, 1), changed);
    await measure(`save ${changed} changed counters of them`, () => saved.save());
  }
  await saved.close();
}

for (const seed of [undefined, second.seed, undefined, second.seed]) {
  const limit = { ...(limits[0] as LocalLimit), key: '"all"', amount: 2 ** 31 - 1 };
  const set = compileLimits([limit], new CounterTable(createCounters(1_024, 2, seed), 1));
  const request = requestOf(1);
  const nowMs = systemClock.monotonicMs();
  const rounds = Array.from({ length: 7 }, () => {
    const startMs = performance.now();
    for (let sent = 0; sent < 300_000; sent++) set.decide(request, nowMs);
    return ((performance.now() - startMs) * 1e6) / 300_000;
  }).sort((a, b) => a - b);
  console.log(
    `a decision ${seed === undefined ? "without" : "with   "} --state-dir ${(rounds[3] ?? 0).toFixed(0).padStart(6)} ns`,
  );
}
await rm(directory, { recursive: true });
