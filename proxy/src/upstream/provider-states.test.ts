/**
 * What one worker learns of a provider, another one knows. The rules are tested with requests
 * (test/integration/provider-quota.test.ts).
 */
import { Worker } from "node:worker_threads";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import type { Backend } from "../ir/snapshot.ts";
import { clientNumber, createProviderMemory, providerIdentity, ProviderStates } from "./provider-states.ts";

const [ann, bob, eve] = ["ann", "bob", "eve"].map(clientNumber) as [number, number, number];
const nowMs = 1_000_000;

function twoWorkers() {
  const memory = createProviderMemory();
  return [new ProviderStates(memory, 1), new ProviderStates(memory, 2)] as const;
}

test("the state of a provider is the same in every worker", () => {
  const [one, other] = twoWorkers();
  one.of("openai", "default").onOutOfQuota(ann, 30_000, nowMs);
  expect(other.of("openai", "default").condition(ann, nowMs)).toBe("outOfQuota");
  expect(other.of("openai", "default").report(nowMs + 1_000)).toMatchObject({
    outOfQuotaForMs: 29_000,
    failingForMs: 0,
  });
  expect(other.of("azure", "default").condition(ann, nowMs)).toBe("available");
  // A probe of one worker keeps the probes of others away.
  expect(other.of("openai", "default").condition(bob, nowMs)).toBe("available");
  other.of("openai", "default").onSend(bob, nowMs);
  expect(one.of("openai", "default").condition(eve, nowMs)).toBe("outOfQuota");
  other.of("openai", "default").onSuccess(bob, nowMs, nowMs + 5);
  expect(one.of("openai", "default").condition(ann, nowMs + 5)).toBe("available");
});

test("threads of their own share it, too", async () => {
  const memory = createProviderMemory();
  const code = `
    const { workerData } = require("node:worker_threads");
    import(workerData.module).then(({ ProviderStates }) => {
      const state = new ProviderStates(workerData.memory, 2).of("openai", "default");
      for (let sent = 0; sent < 5; sent++) state.onFailure(7, 1, 0);
    });
  `;
  const module = new URL("provider-states.ts", import.meta.url).href;
  const worker = new Worker(code, { eval: true, workerData: { memory, module } });
  await once(worker, "exit");
  expect(new ProviderStates(memory, 1).of("openai", "default").report(1)).toEqual({
    outOfQuotaForMs: 0,
    failingForMs: 10_000,
    consecutiveFailures: 5,
  });
});

test("a success that began before the quota was used up says nothing of it", () => {
  const [states] = twoWorkers();
  const state = states.of("openai", "default");
  state.onOutOfQuota(ann, 30_000, nowMs);
  state.onSuccess(bob, nowMs - 1, nowMs + 100);
  expect(state.condition(ann, nowMs + 100)).toBe("outOfQuota");
});

describe("failures", () => {
  test("take a provider out for longer each time, up to five minutes, until it succeeds", () => {
    const [states] = twoWorkers();
    const state = states.of("openai", "default");
    for (let failure = 0; failure < 4; failure++) state.onFailure(ann, nowMs, 0);
    let atMs = nowMs;
    for (const seconds of [10, 20, 40, 80, 160, 300, 300]) {
      state.onFailure(bob, atMs, 0);
      expect(state.report(atMs).failingForMs).toBe(seconds * 1_000);
      expect(state.condition(ann, atMs)).toBe("failing");
      atMs += seconds * 1_000;
      expect(state.condition(ann, atMs)).toBe("available");
    }
    state.onSuccess(ann, atMs, atMs);
    expect(state.report(atMs)).toEqual({ outOfQuotaForMs: 0, failingForMs: 0, consecutiveFailures: 0 });
  });
});

test("more providers than the memory has rows for replace those of the longest time ago, and no others", () => {
  const [states] = twoWorkers();
  for (let provider = 0; provider < 5_000; provider++) {
    states.of(`provider ${provider}`, "default").onOutOfQuota(ann, 60_000, nowMs + provider);
  }
  const known = (provider: number) =>
    states.of(`provider ${provider}`, "default").condition(ann, nowMs) === "outOfQuota";
  expect(Array.from({ length: 100 }, (_, place) => 4_900 + place).filter(known)).toHaveLength(100);
  const all = Array.from({ length: 5_000 }, (_, place) => place).filter(known);
  expect(all.length).toBeLessThanOrEqual(1_024);
});

test("the lock of a worker that has died is released", () => {
  const memory = createProviderMemory();
  new Int32Array(memory)[0] = 2;
  const states = new ProviderStates(memory, 1);
  states.releaseLocksOf(2);
  states.of("openai", "default").onOutOfQuota(ann, 1_000, nowMs);
  expect(states.of("openai", "default").condition(ann, nowMs)).toBe("outOfQuota");
});

test("a provider with another key or server has another state", () => {
  const backend = (apiKey: string, host: string): Backend => ({
    ...{ key: "Backend/default/a", kind: "Backend", namespace: "default", name: "a" },
    endpoints: [{ name: "backend", host, port: 443 }],
    ai: { provider: "openai", apiKey: { secret: apiKey } },
  });
  const identities = [backend("1", "a"), backend("2", "a"), backend("1", "b"), backend("1", "a")].map(providerIdentity);
  expect(new Set(identities).size).toBe(3);
});
