/**
 * `/config_dump` and `/limits` report what is served and why a request was denied, and no response contains a secret.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configDumpSchema } from "@gatewayproxy/admin-api/config-dump";
import { decisionsSchema } from "@gatewayproxy/admin-api/decisions";
import { limitsSchema } from "@gatewayproxy/admin-api/limits";
import { expect, onTestFinished, test, vi } from "vitest";
import * as z from "zod";
import { sendToAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { TestAuthority } from "../../support/certificates.ts";
import { gatewayManifest, policyManifest } from "../../support/gateway.ts";
import { freePort } from "../../support/free-port.ts";
import { startProxy } from "../../support/proxy-process.ts";
import { tlsSecretManifest } from "../../support/tls.ts";
import { keySet, respondWithKeys, signingKey, startKeyServer } from "../../support/tokens.ts";
import { openTrace } from "../../support/trace-stream.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

// A unit test compares its text with the types in admin-api; here the responses are validated against it.
const schemaText = readFileSync(new URL("../../../docs/config-dump.schema.json", import.meta.url), "utf8");
const documented = z.fromJSONSchema(JSON.parse(schemaText) as z.core.JSONSchema.BaseSchema);

const keyed = policyManifest(
  "keyed",
  "kind: HTTPRoute, name: r",
  [`{ requests: 1, unit: Hours, key: 'request.headers["x-api-key"]' }`],
  [
    "headers: [XRateLimit, Ietf]",
    "denied: { format: Problem, body: wait, headers: [{ name: X-Plan, value: free }, { name: x-api-key, value: canary }] }",
  ],
);

const lost = policyManifest("lost", "kind: HTTPRoute, name: nowhere", ["{ requests: 1, unit: Hours }"]);

const ai = `
apiVersion: v1
kind: Secret
metadata: { name: llm-key, namespace: default }
stringData: { apiKey: canary-llm-api-key }
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: { model: gpt-4o } }, host: 127.0.0.1, port: 9, auth: { secretRef: { name: llm-key } } } }
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: llm, namespace: default }
spec:
  parentRefs: [{ name: web }]
  rules:
    - matches: [{ path: { type: PathPrefix, value: /llm } }]
      filters:
        - type: RequestHeaderModifier
          requestHeaderModifier: { set: [{ name: authorization, value: canary-set-header }, { name: x-team, value: blue }] }
      backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]
`;

function secureGateway(port: number): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: secure, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  addresses: [{ type: IPAddress, value: 127.0.0.1 }]
  listeners: [{ name: https, port: ${port}, protocol: HTTPS, tls: { certificateRefs: [{ name: cert }] } }]
`;
}

function issueCertificate(): { readonly cert: string; readonly key: string } {
  const directory = mkdtempSync(join(tmpdir(), "admin-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return new TestAuthority("openssl", directory, "authority").issue("cert", "DNS:localhost");
}

test("shows settings as on the command line, and the addresses of Gateways without an address", async () => {
  const port = await freePort();
  const anywhere = gatewayManifest(port).replace(/^ {2}addresses:.*\n/m, "");
  const settings = ["--listen-address", "127.0.0.1", "--drain-timeout", "90s", "--stream-idle-timeout", "1500ms"];
  const proxy = await startProxy({ "gateway.yaml": anywhere }, ["--workers", "1", ...settings]);
  const { text } = await sendToAdmin(`${proxy.admin}/config_dump`);
  expect(configDumpSchema.parse(JSON.parse(text))).toMatchObject({
    config: {
      settings: {
        "listen-address": "127.0.0.1",
        "drain-timeout": "90s",
        "stream-idle-timeout": "1500ms",
        "stats-address": proxy.stats.replace("http://", ""),
        workers: 1,
        kubernetes: false,
      },
    },
    binds: [{ key: `127.0.0.1:${port}`, address: "127.0.0.1", isOpen: true }],
  });
});

test("reports what is served and what is not, explains each denial, and contains no secret", async () => {
  const certificate = issueCertificate();
  const secure = [tlsSecretManifest("cert", certificate), secureGateway(await freePort())];
  const { proxy, url } = await startAdminProxy((await startBackend()).port, [keyed, lost, ai, ...secure]);
  await proxy.write(
    "broken.yaml",
    "apiVersion: gatewayproxy.dev/v1alpha1\nkind: Backend\nmetadata: { name: bad }\nspec: {}\n",
  );
  await proxy.logged(({ problem }) => problem !== undefined && JSON.stringify(problem).includes("default/bad"));

  const apiKey = "canary-client-api-key";
  const send = () =>
    fetch(`${url}/?access_token=canary-query`, {
      headers: { "x-api-key": apiKey, authorization: "Bearer canary-bearer" },
    });
  const traced = await openTrace(proxy.admin);
  expect((await send()).status).toBe(200);
  const denied = await send();
  expect(denied.status).toBe(429);
  const id = denied.headers.get("x-request-id") ?? "";

  const responses: string[] = [JSON.stringify(await traced.ended)];
  const get = async (path: string): Promise<unknown> => {
    const { text } = await sendToAdmin(proxy.admin + path);
    responses.push(text);
    return JSON.parse(text);
  };

  const raw = await get("/config_dump");
  documented.parse(raw);
  const dump = configDumpSchema.parse(raw);
  expect(dump.config.workers.map(({ generation }) => generation)).toEqual([
    dump.config.generation,
    dump.config.generation,
  ]);
  expect(dump.binds.map(({ isOpen }) => isOpen)).toEqual([true, true]);
  expect(dump.binds.flatMap(({ listeners }) => listeners.map(({ key }) => key)).toSorted()).toEqual([
    "default/secure/https",
    "default/web/http",
  ]);
  expect(dump.routes.find(({ key }) => key === "default/r")?.rules[0]?.limits).toEqual([
    { policy: "default/keyed", target: "HTTPRoute/default/r", entry: 0, mode: "Enforce" },
  ]);
  expect(dump.routes.find(({ key }) => key === "default/llm")?.rules[0]?.filters[0]).toMatchObject({
    set: [
      { name: "authorization", value: "<redacted>" },
      { name: "x-team", value: "blue" },
    ],
  });
  expect(dump.backends.find(({ name }) => name === "b")?.endpoints).toMatchObject([
    { type: "Backend", endpoint: "backend", health: 1 },
  ]);
  expect(dump.policies.find(({ name }) => name === "lost")?.targets).toMatchObject([{ isAttached: false }]);
  expect(dump.policies.find(({ name }) => name === "keyed")).toMatchObject({
    headers: ["XRateLimit", "Ietf"],
    denied: {
      ...{ format: "Problem", status: 429, body: "wait" },
      headers: [
        { name: "x-plan", value: "free" },
        { name: "x-api-key", value: "<redacted>" },
      ],
    },
  });
  expect(dump.policies.find(({ name }) => name === "lost")).toMatchObject({
    headers: ["XRateLimit"],
    denied: { format: "Text", status: 429, headers: [] },
  });
  expect(dump.config.lastRejected).toMatchObject({ isCurrent: true, generation: dump.config.generation });
  expect(dump.config.notServed.map(({ resource, reason }) => `${resource} ${reason}`)).toEqual([
    "Backend default/bad Invalid",
    "ProxyPolicy default/lost TargetNotFound",
  ]);

  const { counters } = limitsSchema.parse(await get("/limits"));
  const key = { isSecret: true, text: expect.stringMatching(/^sha256:[0-9a-f]{8}…-key$/) as string };
  expect(counters).toMatchObject([
    { policy: "default/keyed", entry: 0, source: "local", limit: 1, used: 1, remaining: 0, key },
  ]);

  const { decisions } = decisionsSchema.parse(await get(`/limits/decisions?id=${id}`));
  expect(decisions).toMatchObject([
    {
      kind: "local",
      requestId: id,
      policy: "default/keyed",
      counter: { entry: 0, used: 1, limit: 1, key: counters[0]?.key },
    },
  ]);
  expect(decisions[0]?.remedies[0]).toContain("restores 1 requests of this key");
  expect(decisionsSchema.parse(await get("/limits/decisions")).decisions).toHaveLength(1);
  expect(decisionsSchema.parse(await get("/limits/decisions?id=unknown")).decisions).toEqual([]);

  for (const path of ["/", "/memory", "/debug/tasks", "/debug/trace?expression=%22canary", "/nowhere"]) await get(path);
  const keyLine = certificate.key.split("\n")[1] ?? "";
  for (const response of responses) {
    for (const secret of ["canary", keyLine, "PRIVATE KEY"]) {
      expect(response.replace(/expression at column.*/, "")).not.toContain(secret);
    }
  }
});

test("shows how clients are authenticated, and neither keys nor their hashes, tokens or secrets of URLs", async () => {
  const key = await signingKey("ES256");
  const server = await startKeyServer(respondWithKeys(key));
  const apiKey = "canary-of-a-customer-0123456789abcdef";
  const policy = `
apiVersion: v1
kind: Secret
metadata: { name: acme, namespace: default, labels: { keys: customers, tier: gold } }
stringData: { apiKey: ${apiKey}, apiKey-2: canary-second }
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: login, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: r }]
  traffic:
    authentication:
      forward: Remove
      jwt:
        - { issuer: https://a.example, audiences: [chat], jwks: { uri: '${server.uri}?access_token=canary-url' } }
        - { issuer: https://b.example, jwks: { inline: '${keySet(key)}' } }
        - { issuer: https://c.example, jwks: { uri: 'http://127.0.0.1:1/jwks' } }
      apiKeys: { from: [{ header: x-customer }], secretSelector: { matchLabels: { keys: customers } } }
    rateLimit: { local: [{ requests: 3, unit: Hours, key: apiKey.name, limit: 'apiKey.tier == "gold" ? 3 : 1' }] }
`;
  const { proxy, url } = await startAdminProxy((await startBackend()).port, [policy], ["--log-level", "trace"]);
  const read = async () => configDumpSchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/config_dump`)).text));
  await expect.poll(async () => (await read()).policies[0]?.authentication?.jwt?.[0]?.keys.count).toBe(1);

  const exp = Math.floor(Date.now() / 1_000) + 600;
  const token = await key.sign({ iss: "https://b.example", sub: "alice", exp });
  const traced = await openTrace(proxy.admin);
  expect((await fetch(url, { headers: { authorization: `Bearer ${token}`, "x-customer": apiKey } })).status).toBe(200);
  const responses = [JSON.stringify(await traced.ended)];
  expect(responses[0]).toContain("jwt alice, apiKey default/acme");
  for (const headers of [{ "x-customer": apiKey }, { "x-customer": "canary-guess" }, { "x-customer": apiKey }]) {
    await (await fetch(url, { headers })).text();
  }
  expect((await fetch(url, { headers: { "x-customer": apiKey } })).status).toBe(429);
  for (const path of ["/config_dump", "/limits", "/limits/decisions", "/debug/tasks", "/traffic"]) {
    responses.push((await sendToAdmin(`${proxy.admin}${path}`)).text);
  }

  documented.parse(JSON.parse(responses[1] ?? ""));
  const dump = await read();
  expect(dump.policies[0]?.authentication).toEqual({
    mode: "Required",
    forward: "Remove",
    jwt: [
      {
        issuer: "https://a.example",
        audiences: ["chat"],
        keys: {
          ...{ source: "uri", uri: `${server.uri}?access_token=<redacted>`, count: 1 },
          readAt: expect.stringMatching(/Z$/) as string,
        },
      },
      { issuer: "https://b.example", keys: { source: "configuration", count: 1 } },
      {
        issuer: "https://c.example",
        keys: {
          ...{ source: "uri", uri: "http://127.0.0.1:1/jwks", count: 0 },
          lastError: { message: expect.stringContaining("ECONNREFUSED") as string, at: expect.anything() as string },
        },
      },
    ],
    apiKeys: { from: [{ header: "x-customer" }], count: 2, secrets: ["default/acme"] },
  });
  const digest = createHash("sha256").update(apiKey).digest();
  const [, payload = "", signature = ""] = token.split(".");
  const forbidden = ["canary", digest.toString("base64"), digest.toString("hex"), payload, signature];
  const all = [...responses, JSON.stringify(proxy.log), proxy.stderr()];
  for (const text of all) {
    for (const secret of [...forbidden, String(key.jwk["x"])]) expect(text).not.toContain(secret);
  }
});
