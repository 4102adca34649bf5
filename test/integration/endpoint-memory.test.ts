/** The memory of endpoints that have served no request. */
import { AddressGuard, unrestricted } from "@gatewayproxy/runtime/address-rules";
import { silentLogger } from "@gatewayproxy/runtime/log";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import type { Backend } from "../../proxy/src/ir/snapshot.ts";
import { EndpointSockets } from "../../proxy/src/upstream/endpoint-sockets.ts";
import { NameBudget } from "../../proxy/src/upstream/name-budget.ts";
import { ConnectionSweeper } from "../../proxy/src/upstream/connection-sweeper.ts";
import { BackendHandle } from "../../proxy/src/upstream/backend-handle.ts";
import { defaultUpstream } from "../../proxy/src/upstream/upstream-settings.ts";
import { usedMemory } from "../support/memory.ts";

const count = 20_000;

function backendWith(endpoints: number): Backend {
  return {
    key: "Service/n/s:80",
    kind: "Service",
    namespace: "n",
    name: "s",
    endpoints: Array.from({ length: endpoints }, (_, at) => ({
      name: `s-${at}`,
      host: `10.1.${at >> 8}.${at & 255}`,
      port: 80,
    })),
  };
}

test("an endpoint takes less than 300 bytes of a worker until its first request", async () => {
  const backend = backendWith(count);
  const before = await usedMemory();
  const clock = new FakeClock();
  const handle = new BackendHandle(backend, {
    ...defaultUpstream,
    clock,
    sweeper: new ConnectionSweeper(clock),
    random: () => 0,
    nameBudget: new NameBudget(),
    waitingCalls: { waiting: 0 },
    sockets: new EndpointSockets(),
    resolveName: () => Promise.reject(new Error("no name is resolved here")),
    log: silentLogger,
    connectTimeoutMs: 1_000,
    idleTimeoutMs: 1_000,
    addresses: new AddressGuard(unrestricted),
  });
  const taken = (await usedMemory()) - before;
  expect(handle.size).toBe(count);
  expect(taken / count).toBeLessThan(300);
});
