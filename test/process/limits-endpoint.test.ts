/** What `GET /limits` shows of requests in progress, and of the directory of the counters. */
import type { ServerResponse } from "node:http";
import { limitsSchema } from "@gatewayproxy/admin-api/limits";
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { freePort } from "../support/free-port.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
} from "../support/gateway.ts";
import { stateDirectory } from "../support/mortal-proxy.ts";
import { type ProxyProcess, startProxy } from "../support/proxy-process.ts";

const limitsOf = async ({ admin }: ProxyProcess) => limitsSchema.parse(await (await fetch(`${admin}/limits`)).json());

/** The metrics of the usage of limits, sorted. */
async function usageOf({ stats }: ProxyProcess): Promise<readonly string[]> {
  const lines = (await (await fetch(`${stats}/metrics`)).text()).split("\n");
  const prefix = "gateway_proxy_limit_";
  return lines
    .flatMap((line) => (/^gateway_proxy_limit_(?:used|remaining)/.test(line) ? line.slice(prefix.length) : []))
    .sort();
}

test("shows what requests in progress hold, apart from what is used", async () => {
  const held: ServerResponse[] = [];
  const { port } = await startBackend((request, response) => {
    request.resume().on("end", () => held.push(response));
  });
  const gatewayPort = await freePort();
  const backend = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${port} } }
`;
  const text = manifests(
    gatewayManifest(gatewayPort),
    backend,
    routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]),
    policyManifest("limits", "kind: HTTPRoute, name: chat", [
      "{ tokens: 1000, unit: Hours, reserve: Estimate }",
      "{ concurrent: 5 }",
      "{ requests: 5, unit: Hours }",
    ]),
  );
  const proxy = await startProxy({ "all.yaml": text });
  const body = JSON.stringify({ model: "m", messages: [], max_tokens: 100, pad: "x".repeat(340) }).padEnd(400);
  const url = `http://127.0.0.1:${gatewayPort}/v1/chat/completions`;
  const request = fetch(url, { method: "POST", body }).then((response) => response.text());
  const shown = async () =>
    (await limitsOf(proxy)).counters.map(({ entry, used, held: units }) => [entry, used, units]).sort();
  const before = [
    [0, 200, 200],
    [1, 1, 1],
    [2, 1, 0],
  ];
  await expect.poll(shown, { timeout: 20_000 }).toEqual(before);
  await expect.poll(() => held.length, { timeout: 20_000 }).toBe(1);
  expect(await usageOf(proxy)).toEqual([
    'remaining_ratio{policy="default/limits",entry="0",target="HTTPRoute/default/chat",counts="tokens"} 0.8',
    'remaining_ratio{policy="default/limits",entry="1",target="HTTPRoute/default/chat",counts="concurrent"} 0.8',
    'remaining_ratio{policy="default/limits",entry="2",target="HTTPRoute/default/chat",counts="requests"} 0.8',
    'used_units{policy="default/limits",entry="0",target="HTTPRoute/default/chat",counts="tokens"} 200',
    'used_units{policy="default/limits",entry="1",target="HTTPRoute/default/chat",counts="concurrent"} 1',
    'used_units{policy="default/limits",entry="2",target="HTTPRoute/default/chat",counts="requests"} 1',
  ]);
  const usage = { prompt_tokens: 90, completion_tokens: 10, total_tokens: 100 };
  held[0]?.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ model: "m", usage }));
  await request;
  const after = [
    [0, 100, 0],
    [2, 1, 0],
  ];
  await expect.poll(shown, { timeout: 20_000 }).toEqual(after);
  // No window of the entry with requests in progress is open any more.
  expect((await usageOf(proxy)).filter((line) => line.includes('entry="1"'))).toEqual([]);
}, 60_000);

test("shows the directory of the counters: its path, its size and the last save", async () => {
  const files = { "all.yaml": gatewayManifest(await freePort()) };
  const directory = await stateDirectory();
  const startedMs = Date.now();
  const proxy = await startProxy(files, ["--state-dir", directory]);
  const state = async () => (await limitsOf(proxy)).state;
  await expect
    .poll(async () => Date.parse((await state())?.savedUntil ?? "") > startedMs, { timeout: 20_000 })
    .toBe(true);
  expect(await state()).toMatchObject({ directory, isFailing: false, failures: 0 });
  expect((await state())?.bytes).toBeGreaterThan(0);
  expect((await state())?.lastError).toBeUndefined();
  const without = await startProxy({ "all.yaml": gatewayManifest(await freePort()) });
  expect((await limitsOf(without)).state).toBeUndefined();
}, 60_000);

test("shows no key that a client has sent in a header of a policy, whatever its name", async () => {
  const { port } = await startBackend();
  const gatewayPort = await freePort();
  const policy = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: keys, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: r }]
  traffic:
    authentication: { apiKeys: { from: [{ header: x-customer }], secretRefs: [{ name: acme }] } }
    rateLimit: { local: [{ requests: 5, unit: Hours, key: 'request.headers["x-customer"]' }] }
`;
  const secret = `
apiVersion: v1
kind: Secret
metadata: { name: acme, namespace: default }
stringData: { apiKey: key-of-acme }
`;
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const text = manifests(gatewayManifest(gatewayPort), backendManifest("b", port), route, policy, secret);
  const proxy = await startProxy({ "all.yaml": text });
  const response = await fetch(`http://127.0.0.1:${gatewayPort}/`, { headers: { "x-customer": "key-of-acme" } });
  expect(response.status).toBe(200);
  const { counters } = await limitsOf(proxy);
  expect(counters).toMatchObject([{ used: 1, key: { isSecret: true } }]);
  expect(JSON.stringify(counters)).not.toContain("key-of-acme");
});
