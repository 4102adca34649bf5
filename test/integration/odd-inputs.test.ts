/** Whatever hosts, addresses, headers and paths configuration and backends have: a request may fail, nothing else does. */
import { createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

const numRuns = 60;

/** Text that is no good somewhere: in a URL, a header, a host name, a certificate. */
const odd = fc.oneof(
  fc.constantFrom(
    ...["foo.1", "1.2.3.999", "a b", "[", "[::1", "::1%lo", "0x7f.1", "a..b", "%", "é.example", "a:1", "//", "a@b"],
    ...["\u0000", "\r\n", "a\tb", "*", "xn--", "-", ".", "..", "127.0.0.1:1", "x".repeat(300)],
  ),
  fc.string({ minLength: 1, maxLength: 20 }),
  fc.string({ minLength: 1, maxLength: 20, unit: "binary" }),
);

const service = (name: string, address: string, extra = ""): string => `
apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: default }
spec: { ports: [{ name: main, port: 80${extra} }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}-0, namespace: default, labels: { kubernetes.io/service-name: ${name} } }
addressType: FQDN
ports: [{ name: main, port: 9 }]
endpoints: [{ addresses: [${JSON.stringify(address)}] }]
`;

test("hosts, paths and header values of configuration", async () => {
  const backend = await startBackend();
  const base = manifests(gatewayManifest(), backendManifest("b", backend.port));
  const healthChecks = { intervalMs: 100, timeoutMs: 100, path: "/no blank\r\n" };
  const gateway = await startGateway(base, {
    expectsFaults: true,
    resolveName: () => Promise.reject(new Error("no such name")),
    upstream: {
      ...{ maxConnections: 4, maxRequests: 100, maxWaiting: 100, maxWaitMs: 1_000 },
      healthChecks,
    },
  });
  const pending = (): number => gateway.dataPlane.endpoints().reduce((sum, endpoint) => sum + endpoint.pending, 0);
  await fc.assert(
    fc.asyncProperty(
      odd,
      odd,
      fc.constantFrom("", ", appProtocol: kubernetes.io/h2c"),
      async (host, value, protocol) => {
        const [quoted, path] = [value, `/${value}`].map((text) => JSON.stringify(text));
        const rules = [
          "matches: [{ path: { value: /host } }]\n      backendRefs: [{ name: s, port: 80 }]",
          `matches: [{ path: { value: /mirror } }]
      filters: [{ type: RequestMirror, requestMirror: { backendRef: { name: s, port: 80 } } }]
      backendRefs: [${backendRef("b")}]`,
          `matches: [{ path: { value: /header } }]
      filters: [{ type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: x-a, value: ${quoted} }] } }, { type: ResponseHeaderModifier, responseHeaderModifier: { set: [{ name: x-b, value: ${quoted} }] } }]
      backendRefs: [${backendRef("b")}]`,
          `matches: [{ path: { value: /rewrite } }]
      filters: [{ type: URLRewrite, urlRewrite: { hostname: ${quoted}, path: { type: ReplaceFullPath, replaceFullPath: ${path} } } }]
      backendRefs: [${backendRef("b")}]`,
          `matches: [{ path: { value: /redirect } }]
      filters: [{ type: RequestRedirect, requestRedirect: { hostname: ${quoted}, path: { type: ReplaceFullPath, replaceFullPath: ${path} } } }]`,
          `matches: [{ path: { value: /open } }]\n      backendRefs: [${backendRef("b")}]`,
        ];
        // One that is refused takes its route along, so each has one of its own.
        const routes = rules.map((rule, i) => routeManifest(`r${i}`, [rule]));
        await gateway.apply(manifests(base, service("s", host, protocol), ...routes));
        gateway.clock.advance(200);
        for (const target of ["/host", "/mirror", "/header", "/rewrite", "/redirect"]) {
          for (const init of [{}, { method: "POST", body: "small" }, { method: "POST", body: "x".repeat(70_000) }]) {
            const answer = await fetch(`${gateway.url()}${target}`, { ...init, redirect: "manual" });
            await answer.arrayBuffer();
          }
        }
        expect((await fetch(`${gateway.url()}/open`)).status).toBe(200);
        await expect.poll(pending).toBe(0);
      },
    ),
    { numRuns },
  );
});

test("a path of health checks that cannot be written fails them, and nothing is left of a check", async () => {
  const backend = await startBackend();
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
    ),
    {
      upstream: {
        ...{ maxConnections: 4, maxRequests: 100, maxWaiting: 100, maxWaitMs: 1_000 },
        healthChecks: { intervalMs: 5_000, timeoutMs: 1_000, path: "/no blank\r\n" },
      },
    },
  );
  const fails = (): boolean => gateway.dataPlane.endpoints().every(({ failsChecks }) => failsChecks);
  await expect
    .poll(() => {
      gateway.clock.advance(5_000);
      return fails();
    })
    .toBe(true);
  // The timer of the next check alone: none that waits for an answer.
  await expect.poll(() => gateway.clock.pendingTimers).toBe(1);
  expect(backend.requests).toEqual([]);
  expect((await fetch(gateway.url())).status).toBe(200);
});

/** The head of an answer, from pieces that are each fine or odd. */
const answer = fc
  .record({
    status: fc.constantFrom("200 OK", "204", "101 x", "103 Early", "304 x", "999 x", "000", "200", "599 é", "407 x"),
    fields: fc.array(
      fc.tuple(
        fc.constantFrom(
          "Location",
          "Link",
          "Set-Cookie",
          "Connection",
          "Trailer",
          "Content-Type",
          "Upgrade",
          "X-Y",
          "TE",
        ),
        fc.oneof(odd, fc.constantFrom("close, x-y", "trailers", "websocket", "text/event-stream", "application/json")),
      ),
      { maxLength: 4 },
    ),
    framing: fc.constantFrom(
      ...["Content-Length: 4\r\n\r\nbody", "Content-Length: 9\r\n\r\nbody", "\r\nbody", "Content-Length: -1\r\n\r\n"],
      ...[
        "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-T: \u00e9\r\n\r\n",
        "Content-Encoding: gzip\r\n\r\nbody",
      ],
      ...[
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nConnection: x\r\n\r\n",
      ],
    ),
  })
  .map(({ status, fields, framing }) => {
    const lines = fields.map(([name, value]) => `${name}: ${value.replaceAll(/[\r\n]/g, "")}\r\n`).join("");
    return `HTTP/1.1 ${status}\r\n${lines}${framing}`;
  });

test("answers of backends", async () => {
  let next = "";
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("data", () => socket.end(Buffer.from(next, "latin1")));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const { port: soundPort } = await startBackend();
  const rules = [
    `{ matches: [{ path: { value: /sound } }], backendRefs: [${backendRef("sound")}] }`,
    `{ matches: [{ path: { value: /mirror } }], filters: [{ type: RequestMirror, requestMirror: { backendRef: { group: gatewayproxy.dev, kind: Backend, name: b } } }], backendRefs: [${backendRef("sound")}] }`,
    `{ backendRefs: [${backendRef("b")}] }`,
  ];
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", port),
      backendManifest("sound", soundPort),
      routeManifest("r", rules),
    ),
  );
  const pending = (): number => gateway.dataPlane.endpoints().reduce((sum, endpoint) => sum + endpoint.pending, 0);
  const upgrade = "Connection: close, upgrade\r\nUpgrade: websocket\r\n";
  await fc.assert(
    fc.asyncProperty(answer, async (text) => {
      next = text;
      for (const path of ["/", "/mirror"]) {
        await rawHttp(gateway.url(), `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
        await rawHttp(
          gateway.url(),
          `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx`,
        );
        await rawHttp(gateway.url(), `GET ${path} HTTP/1.1\r\nHost: a\r\n${upgrade}\r\n`);
      }
      expect((await fetch(`${gateway.url()}/sound`)).status).toBe(200);
      await expect.poll(pending).toBe(0);
    }),
    { numRuns },
  );
});
