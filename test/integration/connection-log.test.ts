/** The debug log of single client connections: that they open and close, why, and their TLS. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseLogFilter } from "@gatewayproxy/runtime/log-filter";
import { type Logger, Logs } from "@gatewayproxy/runtime/log";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { openTls, sendOn, tlsGatewayManifest, tlsListener, tlsSecretManifest } from "../support/tls.ts";

interface LoggedLine {
  readonly msg: string;
  readonly reason?: string;
}

interface LoggedConnections {
  readonly connectionLog: Logger;
  readonly lines: readonly LoggedLine[];
  /** Resolves with the lines' messages and reasons when a connection has closed. */
  closed(): Promise<readonly string[]>;
}

function logConnections(level = "debug"): LoggedConnections {
  const filter = parseLogFilter(level);
  if (!filter.ok) throw new Error(JSON.stringify(filter.problems));
  const lines: LoggedLine[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as LoggedLine) };
  const logs = new Logs({ filter: filter.value, clock: new FakeClock(), destination });
  const logged = () => lines.map(({ msg, reason }) => [msg, reason].filter((part) => part !== undefined).join(": "));
  return {
    connectionLog: logs.logger("proxy::server"),
    lines,
    async closed() {
      await expect.poll(() => lines.at(-1)?.msg).toBe("connection closed");
      return logged();
    },
  };
}

async function start(logged: LoggedConnections, options: TestGatewayOptions = {}): Promise<TestGateway> {
  const { port } = await startBackend(respondWith(200));
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const { connectionLog } = logged;
  return startGateway(manifests(gatewayManifest(), backendManifest("b", port), route), { connectionLog, ...options });
}

function dial(gateway: TestGateway) {
  const socket = connect({ port: Number(new URL(gateway.url()).port), host: "127.0.0.1" });
  onTestFinished(() => void socket.destroy());
  return socket.resume();
}

test("a connection that its client closes", async () => {
  const logged = logConnections();
  const gateway = await start(logged);
  const socket = dial(gateway);
  socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await once(socket, "data");
  socket.end();
  expect(await logged.closed()).toEqual(["connection opened", "connection closed: the client closed it"]);
  const peer = expect.stringMatching(/^127\.0\.0\.1 \d+$/) as unknown;
  expect(logged.lines[0]).toMatchObject({ level: "debug", module: "proxy::server", bind: "127.0.0.1:80", peer });
  expect(logged.lines[1]).toMatchObject({ bytesRead: 27, durationMs: 0 });
});

test("a connection that its client resets", async () => {
  const logged = logConnections();
  const socket = dial(await start(logged));
  socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await once(socket, "data");
  socket.resetAndDestroy();
  expect((await logged.closed()).at(-1)).toBe("connection closed: read ECONNRESET");
});

test("a connection of HTTP/2 that its client closes", async () => {
  const logged = logConnections();
  const gateway = await start(logged);
  const session = connectHttp2(gateway.url());
  const stream = session.request({ ":path": "/" });
  stream.resume();
  await once(stream, "close");
  session.close();
  expect((await logged.closed()).at(-1)).toBe("connection closed: the client closed it");
});

test("a connection that the proxy closes after its response", async () => {
  const logged = logConnections();
  dial(await start(logged)).write("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
  expect((await logged.closed()).at(-1)).toBe("connection closed: the proxy closed it");
});

test("a connection without the PROXY protocol header that it must begin with", async () => {
  const logged = logConnections();
  dial(await start(logged, { expectsProxyHeader: true })).write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  expect((await logged.closed()).at(-1)).toBe("connection closed: it did not begin with a PROXY protocol header");
});

test("a connection that is closed by a shutdown", async () => {
  const logged = logConnections();
  const gateway = await start(logged);
  const socket = dial(gateway);
  socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await once(socket, "data");
  await gateway.dataPlane.drain();
  expect((await logged.closed()).at(-1)).toContain("the proxy shuts down");
});

test("no connection is logged above debug", async () => {
  const logged = logConnections("info");
  const gateway = await start(logged);
  const socket = dial(gateway);
  socket.write("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
  await once(socket, "close");
  await expect.poll(() => gateway.dataPlane.tasks()[0]?.children).toEqual([]);
  expect(logged.lines).toEqual([]);
});

describeWith(["openssl"], "over TLS", ({ openssl }) => {
  let directory: string;
  let authority: TestAuthority;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "connection-log-"));
    authority = new TestAuthority(openssl, directory, "authority");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  async function startTls(logged: LoggedConnections): Promise<TestGateway> {
    const { port } = await startBackend(respondWith(200));
    const text = manifests(
      tlsGatewayManifest([tlsListener("https", ["a"], "hostname: a.example")]),
      tlsSecretManifest("a", authority.issue("a", "DNS:a.example")),
      backendManifest("b", port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
    );
    return startGateway(text, { connectionLog: logged.connectionLog });
  }

  test("the results of a handshake", async () => {
    const logged = logConnections();
    const gateway = await startTls(logged);
    const options = { ca: authority.authority.cert, servername: "a.example", ALPNProtocols: ["http/1.1"] };
    const socket = await openTls(gateway, options);
    await sendOn(socket, "a.example");
    socket.end();
    expect(await logged.closed()).toEqual([
      "connection opened",
      "TLS handshake done",
      "connection closed: the client closed it",
    ]);
    expect(logged.lines[1]).toMatchObject({ serverName: "a.example", version: "TLSv1.3", protocol: "http/1.1" });
  });

  test("the error of a handshake", async () => {
    const logged = logConnections();
    const gateway = await startTls(logged);
    await expect(openTls(gateway, { servername: "b.example", rejectUnauthorized: false })).rejects.toThrow();
    const [opened, failed, closed] = await logged.closed();
    expect(opened).toBe("connection opened");
    expect(failed).toMatch(/^TLS handshake failed: no listener has a certificate for the server name \(/);
    expect(closed).toMatch(/^connection closed: TLS handshake failed: /);
  });

  test("a client without TLS", async () => {
    const logged = logConnections();
    const socket = connect({ port: Number(new URL((await startTls(logged)).url(443)).port), host: "127.0.0.1" });
    onTestFinished(() => void socket.destroy());
    socket.resume().write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    expect((await logged.closed()).at(-1)).toBe("connection closed: TLS handshake failed: http request");
  });
});
