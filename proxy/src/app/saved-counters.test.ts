/**
 * Counters over the end of a process: each "process" is memory of its own on the same directory, with simulated time.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { CounterMemory } from "@gatewayproxy/runtime/counter-memory";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { LocalLimit } from "../ir/limit.ts";
import { CounterTable, createCounters } from "../policy/ratelimit/counter-table.ts";
import { compileLimits, type LimitSet } from "../policy/ratelimit/local-limiter.ts";
import {
  allowed,
  concurrentLimit,
  request,
  requestOf,
  requestsLimit,
  tokensLimit,
} from "../policy/ratelimit/testing/local-limits.ts";
import { SavedCounters } from "./saved-counters.ts";

const run = promisify(execFile);
const day = 86_400_000;
const key = 'request.headers["x-api-key"]';

/** The clocks of a machine that was started at another time. */
class OtherBoot {
  readonly #clock: FakeClock;
  readonly #startMs: number;
  readonly #setMs: number;

  /** @param setMs The wall clock is set by this. */
  constructor(clock: FakeClock, upMs: number, setMs = 0) {
    this.#clock = clock;
    this.#startMs = clock.monotonicMs() - upMs;
    this.#setMs = setMs;
  }

  nowMs = (): number => this.#clock.nowMs() + this.#setMs;
  monotonicMs = (): number => this.#clock.monotonicMs() - this.#startMs;
  setTimer: FakeClock["setTimer"] = (...args) => this.#clock.setTimer(...args);
  every: FakeClock["every"] = (...args) => this.#clock.every(...args);
}

interface Process {
  readonly memory: SharedArrayBuffer;
  readonly table: CounterTable;
  readonly saved: SavedCounters;
  readonly lines: readonly string[];
  readonly failures: () => number;
  readonly used: (limit: LocalLimit, client?: string) => number;
  readonly send: (limit: LocalLimit, count?: number, client?: string) => LimitSet;
  readonly nowMs: () => number;
}

let directory: string;
let clock: FakeClock;
const open: SavedCounters[] = [];
let hasDisk = false;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "state-"));
  clock = new FakeClock(Date.UTC(2026, 10, 27, 12));
});

afterEach(async () => {
  for (const saved of open.splice(0)) await saved.close();
  if (hasDisk) await run("umount", ["--lazy", directory]);
  hasDisk = false;
  await rm(directory, { recursive: true });
});

interface Start {
  readonly counters?: number;
  readonly boot?: string;
  readonly machine?: Pick<FakeClock, "nowMs" | "monotonicMs" | "setTimer" | "every">;
}

async function start({ counters = 1_024, boot = "boot-1", machine = clock }: Start = {}): Promise<Process> {
  const lines: string[] = [];
  let failures = 0;
  const write = (...[, message]: [object, string]): number => lines.push(message);
  const opened = await SavedCounters.open({
    directory,
    clock: machine,
    boot,
    random: () => 0.5,
    log: { info: write, warn: write, error: write, debug: write } as never,
    onSaved: () => undefined,
    onFailure: () => void (failures += 1),
  });
  if (!opened.ok) throw new Error(opened.problems.map(({ message }) => message).join());
  const saved = opened.value;
  const memory = createCounters(counters, 2, saved.seed);
  await saved.start(memory, 9);
  open.push(saved);
  const table = new CounterTable(memory, 1, machine);
  const nowMs = (): number => machine.monotonicMs();
  const viewOf = (client?: string) => (client === undefined ? request : requestOf(client));
  return {
    ...{ memory, table, saved, lines, nowMs },
    failures: () => failures,
    send(limit, count = 1, client) {
      const set = compileLimits([limit], table);
      for (let sent = 0; sent < count; sent++) allowed(set.decide(viewOf(client), nowMs()));
      return set;
    },
    used(limit, client) {
      const decision = compileLimits([limit], table).decide(viewOf(client), nowMs(), true);
      return (decision.report.figures?.[0]?.used ?? 0) - (decision.kind === "allowed" ? 1 : 0);
    },
  };
}

/** The end of a process that has saved. */
async function stop({ saved }: Process): Promise<void> {
  open.splice(open.indexOf(saved), 1);
  await saved.close();
}

const kinds: readonly (readonly [string, LocalLimit])[] = [
  ["fixed", requestsLimit({ amount: 100, unit: "Days" })],
  ["sliding", requestsLimit({ amount: 100, unit: "Days", window: { kind: "Sliding" } })],
  ["calendar", requestsLimit({ amount: 100, unit: "Months", window: { kind: "Calendar", timeZone: "Europe/Berlin" } })],
];

describe.each(kinds)("a counter of a %s window", (kind, limit) => {
  test("continues, with the key of each client", async () => {
    const keyed = { ...limit, key };
    const first = await start();
    first.send(limit, 3);
    first.send(keyed, 5, "ada");
    first.send(keyed, 7, "bob");
    await stop(first);
    const second = await start();
    expect([second.used(limit), second.used(keyed, "ada"), second.used(keyed, "bob")]).toEqual([3, 5, 7]);
    expect(second.used(keyed, "eve")).toBe(0);
  });

  test("continues for the rest of its window after the machine has started again", async () => {
    const first = await start();
    first.send(limit, 10);
    await stop(first);
    clock.advance(day / 2 - 3_600_000);
    // The machine is younger than the window.
    const machine = new OtherBoot(clock, 60_000);
    const second = await start({ boot: "boot-2", machine });
    expect(second.used(limit)).toBe(10);
    second.send(limit, 4);
    clock.advance(3_600_000);
    expect(second.used(limit)).toBe(15);
    clock.advance(kind === "calendar" ? 4 * day : day / 2 + day / 30);
    expect(second.used(limit)).toBe(kind === "sliding" ? 6 : 0);
  });

  test("is over if its window ended without a process", async () => {
    const first = await start();
    first.send(limit, 10);
    await stop(first);
    clock.advance(5 * day);
    expect((await start()).used(limit)).toBe(0);
  });

  test("keeps its units when the wall clock is set back before the machine starts again", async () => {
    const first = await start();
    first.send(limit, 10);
    await stop(first);
    const second = await start({ boot: "boot-2", machine: new OtherBoot(clock, 1_000, -3_600_000) });
    expect(second.used(limit)).toBe(10);
  });

  test("has the units after a refund and after a reset", async () => {
    const first = await start();
    const { reservation } = allowed(first.send(limit).decide(request, first.nowMs()));
    await first.saved.save();
    reservation.refund(first.nowMs());
    await stop(first);
    const second = await start();
    expect(second.used(limit)).toBe(1);
    expect([...second.table.reset(new Set([second.table.labelOf(limit)]), second.nowMs())]).toHaveLength(1);
    await stop(second);
    expect((await start()).used(limit)).toBe(0);
  });

  test("moves to a memory of another size", async () => {
    const keyed = { ...limit, key };
    const first = await start({ counters: 4_096 });
    for (let client = 0; client < 100; client++) first.send(keyed, 2, `client ${client}`);
    await stop(first);
    const second = await start({ counters: 512 });
    for (let client = 0; client < 100; client++) expect(second.used(keyed, `client ${client}`)).toBe(2);
  });
});

test.each([
  ["few", 3, 1],
  ["many", 61, 1],
  ["many, with many units each,", 61, 1_000_000],
])(
  "a sliding window with units in %s sub-windows restores each in its time, after two restarts",
  async (_, parts, units) => {
    const limit = tokensLimit({ amount: 2 ** 40, unit: "Days", window: { kind: "Sliding" }, key });
    const part = day / 60;
    const first = await start();
    for (let sent = 0; sent < parts; sent++) {
      if (sent > 0) clock.advance(part);
      const decision = compileLimits([limit], first.table).decide(requestOf("ada"), first.nowMs());
      allowed(decision).reservation.charge(units + sent, first.nowMs());
    }
    await stop(first);
    // No request finds the counter in this process.
    const second = await start();
    const all = parts * units + (parts * (parts - 1)) / 2;
    const counters = ({ table, nowMs }: Process) => [...table.entries(nowMs())].map(({ key, used }) => [key, used]);
    expect(counters(second)).toEqual([[expect.stringMatching(/^unknown/), all]]);
    await stop(second);
    const third = await start();
    const set = compileLimits([limit], third.table);
    set.decide(requestOf("ada"), third.nowMs());
    expect(counters(third)).toEqual([["ada", all]]);
    // The oldest parts are restored first.
    clock.advance(day - (parts - 1) * part + part);
    let left = all;
    for (let sent = 0; sent < parts; sent++) {
      left -= units + sent;
      set.decide(requestOf("ada"), third.nowMs());
      expect(counters(third), `after part ${sent}`).toEqual(left === 0 ? [] : [["ada", left]]);
      clock.advance(part);
    }
  },
);

test("charged tokens beyond the limit are kept", async () => {
  const limit = tokensLimit({ amount: 100, unit: "Weeks" });
  const first = await start();
  allowed(first.send(limit).decide(request, first.nowMs())).reservation.charge(2 ** 40, first.nowMs());
  await stop(first);
  const second = await start();
  expect(compileLimits([limit], second.table).decide(request, second.nowMs())).toMatchObject({
    kind: "denied",
    by: { used: 2 ** 40 },
  });
});

test("windows of a minute and requests in progress are not kept", async () => {
  const limits = [
    requestsLimit({ amount: 100 }),
    requestsLimit({ amount: 100, unit: "Seconds", unitCount: 60, counter: "seconds" }),
    concurrentLimit({ amount: 100 }),
  ];
  const first = await start();
  for (const limit of limits) first.send(limit, 3);
  await stop(first);
  const second = await start();
  expect(limits.map((limit) => second.used(limit))).toEqual([0, 0, 0]);
});

test("an edit of another entry, of the mode or the name keeps a counter; another amount starts one, as without a restart", async () => {
  const limit = requestsLimit({ amount: 100, unit: "Days" });
  const first = await start();
  first.send(limit, 3);
  await stop(first);
  const second = await start();
  expect(second.used({ ...limit, entry: 4, name: "renamed", mode: "Shadow" })).toBe(3);
  expect(second.used(requestsLimit({ amount: 101, unit: "Days" }))).toBe(0);
});

test("the file has no value of a key, and only its owner can read it", async () => {
  const limit = requestsLimit({ amount: 100, unit: "Days", key });
  const first = await start();
  first.send(limit, 1, "ada@example.com");
  await stop(first);
  expect((await readFile(join(directory, "counters"))).includes("ada")).toBe(false);
  expect((await stat(join(directory, "counters"))).mode & 0o077).toBe(0);
  const second = await start();
  const keys = () => [...second.table.entries(second.nowMs())].map((counter) => counter.key);
  expect(keys()).toEqual([expect.stringMatching(/^unknown [0-9a-f]{8}$/)]);
  second.send(limit, 1, "ada@example.com");
  expect(keys()).toEqual(["ada@example.com"]);
});

describe("a process that is killed", () => {
  const limit = requestsLimit({ amount: 100, unit: "Days", key });

  /** The directory as a process that is killed leaves it. */
  async function kill({ saved }: Process): Promise<Buffer> {
    const bytes = await readFile(join(directory, "counters"));
    await stop({ saved } as Process);
    await writeFile(join(directory, "counters"), bytes);
    return bytes;
  }

  test("has what was saved, whatever the last save has written of its block", async () => {
    const first = await start();
    first.send(limit, 10, "ada");
    await first.saved.save();
    const before = (await stat(join(directory, "counters"))).size;
    first.send(limit, 10, "ada");
    await first.saved.save();
    const bytes = await kill(first);
    for (const length of [before, before + 1, before + 8, before + 100, bytes.length - 1, bytes.length]) {
      await writeFile(join(directory, "counters"), bytes.subarray(0, length));
      const next = await start();
      expect(next.used(limit, "ada"), `${length} bytes`).toBe(length === bytes.length ? 20 : 10);
      await stop(next);
    }
    expect((await readdir(directory)).sort()).toEqual(["counters", "lock"]);
  });

  test("has every change that was saved while a new file was written", async () => {
    // So many slots that no counter is evicted.
    const first = await start({ counters: 262_144 });
    const set = compileLimits([limit], first.table);
    const clients = Array.from({ length: 20_000 }, (_, client) => requestOf(`client ${client}`));
    // More than a file may grow by; the last of them starts a new one.
    for (let round = 0; round < 9; round++) {
      for (const client of clients) set.decide(client, first.nowMs());
      await first.saved.save();
    }
    first.send(limit, 1, "client 7");
    await first.saved.save();
    await kill(first);
    const second = await start({ counters: 262_144 });
    expect([second.used(limit, "client 7"), second.used(limit, "client 19999")]).toEqual([10, 9]);
  });

  test("damage puts the file aside, and the part before it is used", async () => {
    const first = await start();
    first.send(limit, 10, "ada");
    await first.saved.save();
    const before = (await stat(join(directory, "counters"))).size;
    first.send(limit, 10, "ada");
    const bytes = await kill({ ...first, saved: await first.saved.save().then(() => first.saved) });
    for (const at of [before + 5, before + 40, bytes.length - 2]) {
      const damaged = Buffer.from(bytes);
      damaged[at] = (damaged[at] ?? 0) ^ 1;
      await writeFile(join(directory, "counters"), damaged);
      const next = await start();
      expect(next.used(limit, "ada")).toBe(10);
      expect(next.lines.join()).toContain("put aside");
      await stop(next);
      const [aside] = (await readdir(directory)).filter((name) => name.startsWith("counters.aside-"));
      expect(await readFile(join(directory, aside ?? ""))).toEqual(damaged);
      await rm(join(directory, aside ?? ""));
    }
  });
});

test.each([
  ["an empty file", ""],
  ["a text", "a file of another program, longer than the first bytes of a file of counters\n"],
  ["the first bytes alone", "gwproxy-state-1l"],
])("%s in its place is put aside", async (_, content) => {
  await writeFile(join(directory, "counters"), content);
  const next = await start();
  expect(next.lines.join()).toContain("put aside");
  const [aside] = (await readdir(directory)).filter((name) => name.startsWith("counters.aside-"));
  expect(await readFile(join(directory, aside ?? ""), "utf8")).toBe(content);
});

test("a directory has one process, which says which one is in use", async () => {
  const first = await start();
  await expect(start()).rejects.toThrow(`another process uses "${directory}"`);
  await stop(first);
  await start();
});

const isRoot = process.getuid?.() === 0;

test("a counter that another thread has locked is saved soon after, and not a period later", async () => {
  // One bucket.
  const first = await start({ counters: 16 });
  const { untilMs } = first.saved.state;
  const { locks } = new CounterMemory(first.memory, 3);
  first.send(requestsLimit({ amount: 100, unit: "Days" }), 3);
  clock.advance(1);
  expect(locks.tryLock(0)).toBe(true);
  await first.saved.save();
  expect(first.saved.state.untilMs).toBe(untilMs);
  locks.unlock(0);
  clock.advance(50);
  await waitFor(() => expect(first.saved.state.untilMs).toBe(clock.nowMs()));
});

test.skipIf(!isRoot)("while the disk is full, it tries again, says so once, and then has everything", async () => {
  const limit = requestsLimit({ amount: 10_000, unit: "Days", key });
  await run("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", directory]);
  hasDisk = true;
  const first = await start();
  first.send(limit, 3, "ada");
  await first.saved.save();
  const filler = join(directory, "filler");
  await writeFile(filler, Buffer.alloc(1024 * 1024)).catch(() => undefined);
  for (let client = 0; client < 500; client++) first.send(limit, 1, `client ${client}`);
  for (let attempt = 0; attempt < 3; attempt++) {
    await first.saved.save();
    clock.advance(10_000);
  }
  expect(first.failures()).toBeGreaterThan(1);
  expect(first.saved.state).toMatchObject({
    ...{ directory, isFailing: true, failures: first.failures() },
    lastError: { message: expect.stringContaining("ENOSPC") as string },
  });
  expect(first.lines.filter((line) => line.startsWith("cannot save counters"))).toHaveLength(1);
  await rm(filler);
  await first.saved.save();
  expect(first.lines.at(-1)).toBe("counters are saved again");
  expect(first.saved.state).toMatchObject({ isFailing: false, untilMs: clock.nowMs() });
  first.send(limit, 4, "ada");
  await stop(first);
  const second = await start();
  expect([second.used(limit, "ada"), second.used(limit, "client 499")]).toEqual([7, 1]);
});
