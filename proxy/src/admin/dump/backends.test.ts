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
      { generation: 1, binds: [], backends: { [backend.key]: backend } },
      workers.map((worker) => figures(worker)),
    ),
  );
  expect(dumped[0]?.endpoints[0]?.latencyMs).toBe(latencyMs);
});
