import type { Clock } from "@gatewayproxy/runtime/clock";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, onTestFinished, test } from "vitest";
import { ApiFailure } from "../kube/api-failure.ts";
import { isObject, type KubeObject } from "../kube/object.ts";
import { LeaderElection, leaseSeconds } from "./lease.ts";

const silent = () => undefined;
const log = { error: silent, warn: silent, info: silent, debug: silent, trace: silent, isLevelEnabled: () => false };

/** An API server with one Lease and its versions; `isAway` makes every call fail. */
class LeaseServer {
  lease: KubeObject | undefined;
  isAway = false;
  #version = 0;
  /** Called between the next read of the lease and its write. */
  beforeNextWrite: (() => void) | undefined;

  get spec(): KubeObject {
    const { spec } = this.lease ?? {};
    return isObject(spec) ? spec : {};
  }

  get(): Promise<KubeObject | undefined> {
    return this.#respond(() => this.lease);
  }

  create(_path: string, body: KubeObject): Promise<KubeObject> {
    return this.#respond(() => {
      this.#interfere();
      if (this.lease !== undefined) throw new ApiFailure(409, "it exists");
      return this.put(body);
    });
  }

  replace(_path: string, body: KubeObject): Promise<KubeObject> {
    return this.#respond(() => {
      this.#interfere();
      if (versionOf(body) !== versionOf(this.lease)) throw new ApiFailure(409, "it has been changed");
      return this.put(body);
    });
  }

  /** Stores a new version of the lease. */
  put(body: KubeObject): KubeObject {
    const metadata = isObject(body["metadata"]) ? body["metadata"] : {};
    this.#version++;
    this.lease = { ...body, metadata: { ...metadata, resourceVersion: String(this.#version) } };
    return this.lease;
  }

  #interfere(): void {
    this.beforeNextWrite?.();
    this.beforeNextWrite = undefined;
  }

  #respond<T>(act: () => T): Promise<T> {
    return this.isAway ? Promise.reject(new Error("connection refused")) : new Promise((resolve) => resolve(act()));
  }
}

function versionOf(lease: KubeObject | undefined): unknown {
  return isObject(lease?.["metadata"]) ? lease["metadata"]["resourceVersion"] : undefined;
}

/** Runs all pending promises. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

/** Advances a clock in small steps, so that responses arrive between its timers. */
async function pass(clock: FakeClock, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 500) {
    clock.advance(Math.min(500, left));
    await settle();
  }
}

interface Replica {
  readonly election: LeaderElection;
  /** The values that `onChange` received, in order. */
  readonly changes: readonly boolean[];
  /** The failures that it logged. */
  readonly warnings: readonly unknown[];
}

async function start(server: LeaseServer, clock: Clock, identity: string): Promise<Replica> {
  const changes: boolean[] = [];
  const warnings: unknown[] = [];
  const election = new LeaderElection({
    ...{
      api: server,
      clock,
      log: { ...log, warn: (entry: unknown) => warnings.push(entry) },
      identity,
      namespace: "system",
      name: "lease",
    },
    onChange: (isLeader) => changes.push(isLeader),
  });
  onTestFinished(() => {
    server.isAway = true;
    return election.close();
  });
  election.start();
  await settle();
  return { election, changes, warnings };
}

const heldByOther = (fields: object = {}) => ({
  metadata: { name: "lease" },
  spec: { holderIdentity: "other", leaseDurationSeconds: leaseSeconds, leaseTransitions: 4, ...fields },
});

describe("a replica", () => {
  test("leads no more when its process was paused for the renew deadline, before any of its timers", async () => {
    const clock = new FakeClock();
    let pausedMs = 0;
    const paused: Clock = {
      nowMs: () => clock.nowMs() + pausedMs,
      monotonicMs: () => clock.monotonicMs() + pausedMs,
      setTimer: (delayMs, callback) => clock.setTimer(delayMs, callback),
      every: (periodMs, callback) => clock.every(periodMs, callback),
    };
    const { election, changes } = await start(new LeaseServer(), paused, "one");
    pausedMs = 9_999;
    expect(election.isLeader).toBe(true);
    pausedMs = 10_000;
    expect(election.isLeader).toBe(false);
    await pass(clock, 2_000);
    expect(election.isLeader).toBe(true);
    expect(changes).toEqual([true]);
  });

  test("leads at once where there is no lease", async () => {
    const server = new LeaseServer();
    const { election, changes } = await start(server, new FakeClock(1_700_000_000_123), "one");
    expect(election.isLeader).toBe(true);
    expect(changes).toEqual([true]);
    expect(server.spec).toEqual({
      holderIdentity: "one",
      leaseDurationSeconds: leaseSeconds,
      leaseTransitions: 0,
      // A MicroTime has six fractional digits.
      acquireTime: "2023-11-14T22:13:20.123000Z",
      renewTime: "2023-11-14T22:13:20.123000Z",
    });
  });

  test("renews its lease every 2 s, and keeps when it was acquired", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    const { election, changes } = await start(server, clock, "one");
    const { acquireTime } = server.spec;
    await pass(clock, 60_000);
    expect(election.isLeader).toBe(true);
    expect(changes).toEqual([true]);
    expect(server.spec).toMatchObject({ acquireTime, leaseTransitions: 0 });
    expect(server.spec["renewTime"]).toBe("2023-11-14T22:14:20.000000Z");
  });

  test("logs once that it cannot renew its lease, however often it tries, and again after a renewal", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    const { warnings } = await start(server, clock, "one");
    for (const total of [1, 2]) {
      server.isAway = true;
      await pass(clock, 60_000);
      expect(warnings).toHaveLength(total);
      server.isAway = false;
      await pass(clock, 5_000);
    }
  });

  test("does not lead where another replica creates the lease first", async () => {
    const server = new LeaseServer();
    server.beforeNextWrite = () => server.put(heldByOther());
    const { election, changes } = await start(server, new FakeClock(), "one");
    expect(election.isLeader).toBe(false);
    expect(changes).toEqual([]);
    expect(server.spec["holderIdentity"]).toBe("other");
  });

  test("continues to lead when another writer has edited the lease that it renews", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    const { election, changes } = await start(server, clock, "one");
    server.beforeNextWrite = () => server.put({ ...server.lease, extra: true });
    await pass(clock, 30_000);
    expect(election.isLeader).toBe(true);
    expect(changes).toEqual([true]);
  });

  test("stops leading when another replica holds the lease", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    const { election, changes } = await start(server, clock, "one");
    server.put(heldByOther());
    await pass(clock, 2_000);
    expect(election.isLeader).toBe(false);
    expect(changes).toEqual([true, false]);
    expect(server.spec["holderIdentity"]).toBe("other");
  });

  test("stops leading 10 s after its last renewal, before another replica may begin", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    const { election, changes } = await start(server, clock, "one");
    server.isAway = true;
    await pass(clock, 9_500);
    expect(election.isLeader).toBe(true);
    await pass(clock, 500);
    expect(election.isLeader).toBe(false);
    server.isAway = false;
    await pass(clock, 2_000);
    expect(changes).toEqual([true, false, true]);
    expect(server.spec["leaseTransitions"]).toBe(0);
  });

  test("does not lead by a response that took longer than its deadline", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    server.beforeNextWrite = () => clock.advance(10_000);
    const { election, changes } = await start(server, clock, "one");
    expect(server.spec["holderIdentity"]).toBe("one");
    expect(election.isLeader).toBe(false);
    await pass(clock, 2_000);
    expect(changes).toEqual([true]);
  });
});

describe("a lease that another replica holds", () => {
  test("is taken over once it has not been renewed for its duration, and the transition is counted", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    server.put(heldByOther());
    const { election } = await start(server, clock, "one");
    await pass(clock, leaseSeconds * 1_000);
    expect(election.isLeader).toBe(false);
    await pass(clock, 2_000);
    expect(election.isLeader).toBe(true);
    expect(server.spec).toMatchObject({ holderIdentity: "one", leaseTransitions: 5 });
  });

  test("is not taken over while it is renewed", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    const { election, changes } = await start(server, clock, "one");
    await pass(clock, 2_000);
    for (let round = 0; round < 10; round++) {
      server.put(heldByOther());
      await pass(clock, 10_000);
    }
    expect(election.isLeader).toBe(false);
    expect(changes).toEqual([true, false]);
  });

  test("is valid for the duration in its spec", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    server.put(heldByOther({ leaseDurationSeconds: 60 }));
    const { election } = await start(server, clock, "one");
    await pass(clock, 60_000);
    expect(election.isLeader).toBe(false);
    await pass(clock, 2_000);
    expect(election.isLeader).toBe(true);
  });

  test.each(["2001-01-01T00:00:00.000000Z", "2101-01-01T00:00:00.000000Z"])(
    "holds by our clock alone, whatever time it says it was renewed: %s",
    async (renewTime) => {
      const server = new LeaseServer();
      const clock = new FakeClock();
      server.put(heldByOther({ renewTime }));
      const { election } = await start(server, clock, "one");
      clock.stepWall(3_600_000);
      await pass(clock, 14_000);
      expect(election.isLeader).toBe(false);
      await pass(clock, 4_000);
      expect(election.isLeader).toBe(true);
    },
  );

  test("goes to one of the waiting replicas", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    server.put(heldByOther());
    const replicas = [await start(server, clock, "one"), await start(server, clock, "two")];
    await pass(clock, 30_000);
    expect(replicas.filter(({ election }) => election.isLeader)).toHaveLength(1);
  });
});

describe("a replica that is closed", () => {
  test("releases its lease, and another replica leads at its next read", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    const first = await start(server, clock, "one");
    const second = await start(server, clock, "two");
    await first.election.close();
    expect(first.changes).toEqual([true, false]);
    expect(server.spec["holderIdentity"]).toBe("");
    await pass(clock, 2_000);
    expect(second.election.isLeader).toBe(true);
    expect(server.spec).toMatchObject({ holderIdentity: "two", leaseTransitions: 1 });
  });

  test("does not change the lease of another replica", async () => {
    const server = new LeaseServer();
    server.put(heldByOther());
    const { election, changes } = await start(server, new FakeClock(), "one");
    const before = server.lease;
    await election.close();
    expect(server.lease).toBe(before);
    expect(changes).toEqual([]);
  });

  test("ends while the API server is unavailable, and holds no timer", async () => {
    const server = new LeaseServer();
    const clock = new FakeClock();
    const { election, changes } = await start(server, clock, "one");
    server.isAway = true;
    await election.close();
    expect(changes).toEqual([true, false]);
    expect(clock.pendingTimers).toBe(0);
  });
});
