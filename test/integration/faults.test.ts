/** Internal errors of the proxy, which the test injects: each ends one request or connection, and is reported. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { silentObserver } from "../../proxy/src/policy/ratelimit/global/observer.ts";
import { HostTable } from "../../proxy/src/routing/host-table.ts";
import { guardedClock } from "../../proxy/src/data-plane/faults.ts";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../support/gateway.ts";
import { byAddress, globalPolicy, manifestsUnder } from "../support/global-policy.ts";
import { respondGrpc, startRawService } from "../support/rate-limit-service.ts";
import { rawHttp } from "../support/raw-http.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { openTls, tlsGatewayManifest, tlsListener, tlsSecretManifest } from "../support/tls.ts";

const fault = new Error("injected by the test");

/** Throws at every call while `isOn`. */
class Injector {
  isOn = false;

  throwIfOn(): void {
    if (this.isOn) throw fault;
  }
}

async function start(options: TestGatewayOptions, policy = ""): Promise<TestGateway> {
  const { port } = await startBackend(respondWith(200, "ok"));
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const all = manifests(gatewayManifest(), backendManifest("b", port), route, ...(policy === "" ? [] : [policy]));
  return await startGateway(all, { expectsInternalErrors: true, ...options });
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

async function isServed(gateway: TestGateway): Promise<void> {
  expect((await rawHttp(gateway.url(), last)).status).toBe(200);
}

test.each([
  ["alone", get],
  ["before another one", get + get],
  ["with a switch of protocols", get.replace("\r\n\r\n", "\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")],
  ["that awaits 100", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"],
])("an HTTP/1 request that fails at its start, %s, ends its connection", async (_, request) => {
  const injector = new Injector();
  const createRequestId = (): string => {
    injector.throwIfOn();
    return randomUUID();
  };
  const gateway = await start({ createRequestId });
  injector.isOn = true;
  expect((await rawHttp(gateway.url(), request)).status).toBe(0);
  expect(gateway.internalErrors).toEqual([fault]);
  injector.isOn = false;
  await isServed(gateway);
});

test("a pipelined HTTP/1 request that fails at its start ends its connection", async () => {
  let ids = 0;
  const createRequestId = (): string => {
    if (++ids === 2) throw fault;
    return randomUUID();
  };
  const gateway = await start({ createRequestId });
  expect((await rawHttp(gateway.url(), get + get)).status).toBe(200);
  expect(gateway.internalErrors).toEqual([fault]);
  await isServed(gateway);
});

test("an HTTP/2 request that fails at its start ends its stream, and others of the connection continue", async () => {
  const injector = new Injector();
  const createRequestId = (): string => {
    injector.throwIfOn();
    return randomUUID();
  };
  const gateway = await start({ createRequestId });
  const session = connectHttp2(gateway.url());
  onTestFinished(() => session.destroy());
  injector.isOn = true;
  const first = session.request({ ":path": "/" });
  first.on("error", () => undefined);
  await new Promise((resolve) => first.once("close", resolve));
  expect(gateway.internalErrors).toEqual([fault]);
  injector.isOn = false;
  const second = session.request({ ":path": "/" });
  const [headers] = (await once(second, "response")) as [{ ":status": number }];
  expect(headers[":status"]).toBe(200);
  second.resume();
  await once(second, "close");
});

test("a connection that fails when it is accepted is closed", async () => {
  const injector = new Injector();
  const gateway = await start({ observer: { connectionOpened: () => injector.throwIfOn() } });
  injector.isOn = true;
  expect((await rawHttp(gateway.url(), get)).status).toBe(0);
  expect(gateway.internalErrors).toEqual([fault]);
  injector.isOn = false;
  await isServed(gateway);
});

test("an error while a local reply is recorded ends only its request", async () => {
  const injector = new Injector();
  const policy = policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 1, unit: Hours }"]);
  const gateway = await start({ observer: { denied: () => injector.throwIfOn() } }, policy);
  await isServed(gateway);
  injector.isOn = true;
  expect((await rawHttp(gateway.url(), last)).status).toBe(500);
  expect(gateway.internalErrors).toEqual([fault]);
});

test("a timer that fails is reported, and others fire", () => {
  const clock = new FakeClock();
  const faults: unknown[] = [];
  const guarded = guardedClock(clock, (error, origin) => faults.push([error, origin]));
  let fired = 0;
  guarded.setTimer(1, () => {
    throw fault;
  });
  guarded.setTimer(2, () => fired++);
  guarded.setTimer(2, () => fired++).cancel();
  clock.advance(2);
  expect([faults, fired]).toEqual([[[fault, "timer"]], 1]);
});

test("an error while a response of a rate limit service is read ends that call, and the failure mode decides", async () => {
  const { port } = await startRawService((stream) => respondGrpc(stream, Buffer.from([8, 1])));
  const policy = globalPolicy(`address: '127.0.0.1:${port}', failureMode: Open, ${byAddress}`);
  const injector = new Injector();
  const backend = await startBackend(respondWith(200, "ok"));
  const globalLimits = { ...silentObserver, callEnded: () => injector.throwIfOn() };
  const gateway = await startGateway(manifestsUnder(backend, policy), { globalLimits, expectsInternalErrors: true });
  await isServed(gateway);
  injector.isOn = true;
  await isServed(gateway);
  expect(gateway.internalErrors).toContain(fault);
  injector.isOn = false;
  await isServed(gateway);
});

describeWith(["openssl"], "a TLS handshake", ({ openssl }) => {
  afterEach(() => void vi.restoreAllMocks());

  test.each([
    { name: "the protocol is chosen", failing: 1 },
    { name: "the certificate is chosen", failing: 2 },
    { name: "the connection is accepted", failing: 3 },
  ])("with an internal error while $name ends its connection", async ({ failing }) => {
    const directory = mkdtempSync(join(tmpdir(), "faults-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const authority = new TestAuthority(openssl, directory, "authority");
    const listener = tlsListener("https", ["a"], "hostname: a.example");
    const secret = tlsSecretManifest("a", authority.issue("a", "DNS:a.example"));
    const gateway = await startGateway(manifests(tlsGatewayManifest([listener]), secret), {
      expectsInternalErrors: true,
    });
    const options = { servername: "a.example", ALPNProtocols: ["http/1.1"], ca: authority.authority.cert };

    let looks = 0;
    const find = Reflect.get(HostTable.prototype, "find") as (this: HostTable<unknown>, name: string) => unknown;
    vi.spyOn(HostTable.prototype, "find").mockImplementation(function (this: HostTable<unknown>, name): unknown {
      const found = find.call(this, name);
      // The certificate is looked up in the table of its listener, too.
      if (name === "a.example" && "tls" in Object(found) && ++looks === failing) throw fault;
      return found;
    });
    const port = Number(new URL(gateway.url(443)).port);
    const socket = connectTls({ host: "127.0.0.1", port, ...options });
    socket.on("error", () => undefined).resume();
    await new Promise((resolve) => socket.once("close", resolve));
    expect(gateway.internalErrors).toEqual([fault]);
    expect((await openTls(gateway, options)).alpnProtocol).toBe("http/1.1");
  });
});
