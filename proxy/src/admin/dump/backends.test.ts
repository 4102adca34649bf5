import { runToEnd } from "@gatewayproxy/runtime/steps";
import { expect, test } from "vitest";
import type { Backend } from "../../ir/snapshot.ts";
import type { EndpointState } from "../../ir/endpoint-state.ts";
import { dumpBackends } from "./backends.ts";

const backend: Backend = {
  key: "Backend/default/app",
  kind: "Backend",
  namespace: "default",
  name: "app",
  endpoints: [{ name: "backend", host: "127.0.0.1", port: 80 }],
};

/** The figures of one worker. */
function figures(of: Partial<EndpointState>): EndpointState {
  return {
    backend,
    endpoint: "backend",
    address: "127.0.0.1:80",
    health: 1,
    requests: 0,
    latencyMs: 0,
    pending: 0,
    consecutiveFailures: 0,
    timesEjected: 0,
    ejectedForMs: 0,
    failsChecks: false,
    ...of,
  };
}

test.each([
  ["none for an endpoint that never responded", [{ requests: 3, latencyMs: 0 }], undefined],
  ["of those workers that had a response", [{ requests: 9 }, { requests: 1, latencyMs: 4 }], 4],
  [
    "by requests over workers",
    [
      { requests: 3, latencyMs: 2 },
      { requests: 1, latencyMs: 6 },
    ],
    3,
  ],
])("reports the latency: %s", (_, workers, latencyMs) => {
  const dumped = runToEnd(
    dumpBackends(
      { generation: 1, binds: [], backends: [backend] },
      workers.map((worker) => figures(worker)),
    ),
  );
  expect(dumped[0]?.endpoints[0]?.latencyMs).toBe(latencyMs);
});

test("shows the providers of a Backend with their states, and their endpoints by the name of the provider", () => {
  const provider = (name: string): Backend => ({ ...backend, key: `Backend/default/${name}`, name });
  const list: Backend = {
    ...{ key: "Backend/default/chat", kind: "Backend", namespace: "default", name: "chat", endpoints: [] },
    failover: {
      firstByteTimeoutMs: 10,
      providers: ["a", "b", "c"].map((name, priority) => ({ backend: `Backend/default/${name}`, priority, weight: 1 })),
    },
  };
  const all = [list, provider("a"), provider("b"), provider("c")];
  const [dumped] = runToEnd(
    dumpBackends(
      { generation: 1, binds: [], backends: all },
      [figures({ backend: provider("b"), requests: 3 })],
      new Map([
        ["Backend/default/a", { outOfQuotaForMs: 5, failingForMs: 9, consecutiveFailures: 2 }],
        ["Backend/default/b", { outOfQuotaForMs: 0, failingForMs: 9, consecutiveFailures: 7 }],
      ]),
    ),
  );
  expect(dumped?.failover).toEqual({
    firstByteTimeoutMs: 10,
    providers: [
      { backend: "Backend/default/a", priority: 0, weight: 1, state: "OutOfQuota", forMs: 5, consecutiveFailures: 2 },
      { backend: "Backend/default/b", priority: 1, weight: 1, state: "Failing", forMs: 9, consecutiveFailures: 7 },
      { backend: "Backend/default/c", priority: 2, weight: 1, state: "Available", consecutiveFailures: 0 },
    ],
  });
  expect(dumped?.endpoints).toMatchObject([
    { name: "chat", endpoint: "a", requests: 0 },
    { name: "chat", endpoint: "b", requests: 3 },
    { name: "chat", endpoint: "c", requests: 0 },
  ]);
});
