/**
 * Unusual hosts, addresses, headers and paths of configuration and backends: a request may fail, and nothing else does.
 */
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  serviceManifest,
  startGateway,
} from "../support/gateway.ts";
import { startRawServer } from "../support/raw-backend.ts";
import { rawHttp } from "../support/raw-http.ts";

const numRuns = 60;

/** Text that is invalid in some place: in a URL, a header, a host name, a certificate. */
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
    expectsProblems: true,
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
        // A rejected filter makes its route invalid, so each has its own route.
        const routes = rules.map((rule, i) => routeManifest(`r${i}`, [rule]));
        await gateway.apply(manifests(base, service("s", host, protocol), ...routes));
        gateway.clock.advance(200);
        for (const target of ["/host", "/mirror", "/header", "/rewrite", "/redirect"]) {
          for (const init of [{}, { method: "POST", body: "small" }, { method: "POST", body: "x".repeat(70_000) }]) {
            const response = await fetch(`${gateway.url()}${target}`, { ...init, redirect: "manual" });
            await response.arrayBuffer();
          }
        }
        expect((await fetch(`${gateway.url()}/open`)).status).toBe(200);
        await expect.poll(pending).toBe(0);
      },
    ),
    { numRuns },
  );
});

test("an invalid path of health checks fails them, and each check is cleaned up", async () => {
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
  // The timer of the next check alone: none of a check in progress.
  await expect.poll(() => gateway.clock.pendingTimers).toBe(1);
  expect(backend.requests).toEqual([]);
  expect((await fetch(gateway.url())).status).toBe(200);
});

/** The head of a response, from pieces that are each ordinary or odd. */
const response = fc
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

test("responses of backends", async () => {
  let next = "";
  const port = await startRawServer((socket) => {
    socket.on("data", () => socket.end(Buffer.from(next, "latin1")));
  });
  const { port: ordinaryPort } = await startBackend();
  const rules = [
    `{ matches: [{ path: { value: /ordinary } }], backendRefs: [${backendRef("ordinary")}] }`,
    `{ matches: [{ path: { value: /mirror } }], filters: [{ type: RequestMirror, requestMirror: { backendRef: { group: gatewayproxy.dev, kind: Backend, name: b } } }], backendRefs: [${backendRef("ordinary")}] }`,
    `{ backendRefs: [${backendRef("b")}] }`,
  ];
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", port),
      backendManifest("ordinary", ordinaryPort),
      routeManifest("r", rules),
    ),
  );
  const pending = (): number => gateway.dataPlane.endpoints().reduce((sum, endpoint) => sum + endpoint.pending, 0);
  const upgrade = "Connection: close, upgrade\r\nUpgrade: websocket\r\n";
  await fc.assert(
    fc.asyncProperty(response, async (text) => {
      next = text;
      for (const path of ["/", "/mirror"]) {
        await rawHttp(gateway.url(), `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
        await rawHttp(
          gateway.url(),
          `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx`,
        );
        await rawHttp(gateway.url(), `GET ${path} HTTP/1.1\r\nHost: a\r\n${upgrade}\r\n`);
      }
      expect((await fetch(`${gateway.url()}/ordinary`)).status).toBe(200);
      await expect.poll(pending).toBe(0);
    }),
    { numRuns },
  );
});

/** Bytes that no HTTP server sends. */
const notHttp = fc.oneof(
  fc.constantFrom(
    ...[
      "\u0000\u0001\u0002",
      "HTTP/1.1",
      "HTTP/9.9 200 OK\r\n\r\n",
      "220 mail.example ESMTP\r\n",
      "\r\n".repeat(1_000),
    ],
    `HTTP/1.1 200 ${"x".repeat(200_000)}\r\n\r\n`,
    `HTTP/1.1 200 OK\r\nX-Y: ${"x".repeat(200_000)}\r\n\r\n`,
    `HTTP/1.1 200 OK\r\n${"X-Y: x\r\n".repeat(20_000)}\r\n`,
    "HTTP/1.1 100 Continue\r\n\r\n".repeat(20_000),
    // HTTP/2: SETTINGS, and then GOAWAY, a RST_STREAM of an unknown stream, an invalid field section, or a huge frame.
    "\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x02",
    "\0\0\0\x04\0\0\0\0\0\0\0\x04\x03\0\0\0\0\x63\0\0\0\x01",
    "\0\0\0\x04\0\0\0\0\0\0\0\x04\x01\x05\0\0\0\x01\xff\xff\xff\xff",
    "\0\0\0\x04\0\0\0\0\0\xff\xff\xff\0\0\0\0\0\x01",
  ),
  fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
);

test("responses of backends to health checks", async () => {
  const next = { text: "", end: "close" };
  const checks = [0, 0];
  const start = (which: number): Promise<number> =>
    startRawServer((socket) => {
      checks[which] = (checks[which] ?? 0) + 1;
      socket.once("data", () => {
        socket.write(Buffer.from(next.text, "latin1"));
        if (next.end === "close") socket.end();
        else if (next.end === "reset") socket.resetAndDestroy();
      });
    });
  const [http1, http2] = [await start(0), await start(1)];
  const ordinary = await startBackend();
  const healthChecks = { intervalMs: 5_000, timeoutMs: 1_000, path: "/" };
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      serviceManifest("http1", [http1]),
      serviceManifest("http2", [http2], "appProtocol: kubernetes.io/h2c"),
      backendManifest("ordinary", ordinary.port),
      routeManifest("r", [
        "{ matches: [{ path: { value: /http1 } }], backendRefs: [{ name: http1, port: 80 }] }",
        "{ matches: [{ path: { value: /http2 } }], backendRefs: [{ name: http2, port: 80 }] }",
        `{ backendRefs: [${backendRef("ordinary")}] }`,
      ]),
    ),
    { upstream: { ...{ maxConnections: 4, maxRequests: 100, maxWaiting: 100, maxWaitMs: 1_000 }, healthChecks } },
  );
  const failing = (): readonly boolean[] =>
    gateway.dataPlane
      .endpoints()
      .filter(({ address }) => !address.endsWith(`:${ordinary.port}`))
      .map(({ failsChecks }) => failsChecks);
  const ends = fc.constantFrom("close", "reset", "never");
  await fc.assert(
    fc.asyncProperty(fc.oneof(response, notHttp, fc.constant("")), ends, async (text, end) => {
      Object.assign(next, { text, end });
      // Each check has ended before the next one of its endpoint begins.
      const before = checks.map((count) => count + 2);
      await expect
        .poll(
          () => {
            gateway.clock.advance(1_000);
            return checks.every((count, which) => count >= (before[which] ?? 0));
          },
          { interval: 5 },
        )
        .toBe(true);
      expect((await fetch(gateway.url())).status).toBe(200);
      expect(gateway.internalErrors).toEqual([]);
    }),
    { numRuns: numRuns / 3 },
  );
  Object.assign(next, { text: "", end: "never" });
  await expect.poll(() => (gateway.clock.advance(1_000), failing()), { interval: 5 }).toEqual([true, true]);
  // One timer for each endpoint: of its next check, or of the one in progress, which has another one to connect.
  const timers = async (): Promise<number> => {
    gateway.clock.advance(1_000);
    await setImmediate();
    return gateway.clock.pendingTimers;
  };
  await expect.poll(timers, { interval: 5 }).toBe(3);
});
