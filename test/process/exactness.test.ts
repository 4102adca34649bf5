/** A limit of N allows N, whatever the number of workers, connections and concurrent requests. */
import { Agent, request } from "undici";
import { expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
} from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";

const runs = 20;

test(`of 2,000 concurrent requests, 100 and burst 5 allow exactly 105 over 2 workers, ${runs} times`, {
  timeout: 120_000,
}, async () => {
  const backend = await startBackend(respondWith(200));
  const port = await freePort();
  const route = (run: number): string =>
    manifests(
      routeManifest(`r${run}`, [`{ matches: [{ path: { value: /${run} } }], backendRefs: [${backendRef("b")}] }`]),
      policyManifest(`p${run}`, `kind: HTTPRoute, name: r${run}`, ["{ requests: 100, unit: Hours, burst: 5 }"]),
    );
  await startProxy(
    {
      "gateway.yaml": manifests(gatewayManifest(port), backendManifest("b", backend.port)),
      "routes.yaml": manifests(...Array.from({ length: runs }, (_, run) => route(run))),
    },
    ["--workers", "2", "--access-log", "off"],
  );
  const client = new Agent({ connections: 64, pipelining: 1 });
  onTestFinished(() => client.close());
  const send = async (run: number): Promise<number> => {
    const { statusCode, body } = await request(`http://127.0.0.1:${port}/${run}`, { dispatcher: client });
    await body.dump();
    return statusCode;
  };
  for (let run = 0; run < runs; run++) {
    const statuses = await Promise.all(Array.from({ length: 2_000 }, () => send(run)));
    const counts = {
      allowed: statuses.filter((s) => s === 200).length,
      denied: statuses.filter((s) => s === 429).length,
    };
    expect(counts).toEqual({ allowed: 105, denied: 1_895 });
  }
  expect(backend.requests).toHaveLength(105 * runs);
});
