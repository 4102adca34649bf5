/**
 * TLS listeners, end to end: the server name of a real handshake decides, TLS is relayed as it is or ended by the
 * gateway.
 */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createSecureServer, connect as connectHttp2 } from "node:http2";
import { request } from "node:https";
import type { AddressInfo, Server, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type ConnectionOptions, createServer as createTlsServer, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Backend, Listener, ListenerTls, StreamListener } from "../../proxy/src/ir/snapshot.ts";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import {
  openTcp,
  readAll,
  startStreams,
  startTcp,
  type StreamGateway,
  type StreamGatewayOptions,
  streamBackend,
  streamBind,
  streamListener,
  streamRoute,
} from "../support/stream-gateway.ts";
import { sendTwoHellos } from "../support/two-hellos.ts";

describeWith(["openssl"], "a TLS listener", ({ openssl }) => {
  let directory: string;
  let ca: string;
  let authority: TestAuthority;
  let a: Certificate;
  let gatewayCertificate: Certificate;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "tls-routes-"));
    authority = new TestAuthority(openssl, directory, "authority");
    ca = authority.authority.cert;
    a = authority.issue("a", "DNS:a.example", "DNS:*.wild.example");
    gatewayCertificate = authority.issue("gateway", "DNS:b.example", "DNS:c.example");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  function tlsOf({ cert, key }: Certificate, rest: Partial<ListenerTls> = {}): ListenerTls {
    const certificate = { source: "default/c", chain: cert, privateKey: { secret: key }, hostnames: ["*.example"] };
    return { certificates: [certificate], minVersion: "TLSv1.2", maxVersion: "TLSv1.3", protocols: [], ...rest };
  }

  async function listen(server: Server): Promise<number> {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    return (server.address() as AddressInfo).port;
  }

  /** A server with the certificate of `a.example` that greets with its name and echoes. */
  async function tlsBackend(name: string, rest: Partial<Backend> = {}): Promise<Backend> {
    const server = createTlsServer({ cert: a.cert, key: a.key, allowHalfOpen: true }, (socket) => {
      socket.on("error", () => undefined).write(name);
      socket.pipe(socket);
    });
    return streamBackend(name, [await listen(server)], rest);
  }

  function openTls(gateway: StreamGateway, servername: string, options: ConnectionOptions = {}): Promise<TLSSocket> {
    const name = servername === "" ? {} : { servername };
    const socket = connect({
      host: "127.0.0.1",
      port: gateway.port(),
      ca,
      ...name,
      ...options,
    } as ConnectionOptions);
    // Not an option of TLS clients by its types.
    socket.allowHalfOpen = true;
    onTestFinished(() => void socket.destroy());
    return new Promise((resolve, reject) => {
      socket.once("secureConnect", () => resolve(socket));
      socket.once("error", reject);
    });
  }

  async function firstText(socket: Socket): Promise<string> {
    const [text] = (await once(socket, "data")) as [Buffer];
    return text.toString();
  }

  function startTls(
    streams: readonly StreamListener[],
    backends: readonly Backend[],
    listeners: readonly Listener[] = [],
    options: StreamGatewayOptions = {},
  ): Promise<StreamGateway> {
    return startStreams({ binds: [streamBind(streams, { listeners })], backends }, options);
  }

  const malformedHello = "\u0016\u0003\u0001\u0000\u0005\u0001\u0000\u0000\u0001\u0000";

  const tlsRoute = (name: string, hostnames: readonly string[], backend: Backend, rest = {}) =>
    streamRoute(name, [backend], { kind: "TLSRoute", hostnames, ...rest });

  /** Responds with 404 to every request, which only HTTP does. */
  function httpsListener(hostname: string | undefined): Listener {
    return {
      ...{ key: "default/web/https", gateway: { namespace: "default", name: "web" }, name: "https", protocol: "HTTPS" },
      ...{ tls: tlsOf(gatewayCertificate, { protocols: ["h2", "http/1.1"] }), routes: [] },
      ...(hostname !== undefined && { hostname }),
    };
  }

  async function httpsStatus(
    gateway: StreamGateway,
    servername: string,
    host = servername,
  ): Promise<number | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    request(
      { host: "127.0.0.1", port: gateway.port(), ca, servername, headers: { host }, agent: false },
      (response) => {
        response.resume();
        resolve(response.statusCode);
      },
    )
      .on("error", reject)
      .end();
    return await promise;
  }

  describe("that passes TLS through", () => {
    test("relays the handshake with the backend, chosen by the most specific host name", async () => {
      const [exact, wild] = [await tlsBackend("exact"), await tlsBackend("wild")];
      const routes = [tlsRoute("w", ["*.wild.example"], wild), tlsRoute("e", ["x.wild.example"], exact)];
      const gateway = await startTls([streamListener("TLS", routes)], [exact, wild]);
      expect(await firstText(await openTls(gateway, "x.wild.example"))).toBe("exact");
      const client = await openTls(gateway, "Y.wild.example");
      expect(client.getPeerCertificate().subjectaltname).toContain("a.example");
      expect(await firstText(client)).toBe("wild");
      const ended = gateway.ended();
      client.end();
      expect(await ended).toMatchObject([
        { protocol: "TLS", serverName: "y.wild.example", route: "TLSRoute/default/w", reason: "ClientClosed" },
      ]);
    });

    test("relays HTTP/1.1 and HTTP/2 of a real server and a real client", async () => {
      const server = createSecureServer({ cert: a.cert, key: a.key, allowHTTP1: true }, (incoming, response) => {
        response.end(incoming.httpVersion);
      });
      const backend = streamBackend("a", [await listen(server)]);
      const gateway = await startTls([streamListener("TLS", [tlsRoute("r", ["a.example"], backend)])], [backend]);
      expect(await httpsStatus(gateway, "a.example")).toBe(200);
      const session = connectHttp2("https://a.example", {
        createConnection: () =>
          connect({
            ...{ host: "127.0.0.1", port: gateway.port() },
            ...{ ca, servername: "a.example", ALPNProtocols: ["h2"] },
          }),
      });
      onTestFinished(() => session.destroy());
      const stream = session.request({ ":path": "/" });
      expect(await readAll(stream as unknown as Socket)).toBe("2.0");
    });

    test.each([
      ["", ""],
      ["a name without a route", "b.example"],
    ])("resets connections for %j, as the handshake is not its own", async (_, name) => {
      const backend = await tlsBackend("a");
      const gateway = await startTls([streamListener("TLS", [tlsRoute("r", ["a.example"], backend)])], [backend]);
      const ended = gateway.ended();
      await expect(openTls(gateway, name)).rejects.toMatchObject({ code: "ECONNRESET" });
      expect(await ended).toMatchObject([{ reason: "RouteNotFound", backend: undefined }]);
    });

    test("serves clients without a name by a route without host names", async () => {
      const backend = await tlsBackend("a");
      const gateway = await startTls([streamListener("TLS", [streamRoute("r", [backend])])], [backend]);
      expect(await firstText(await openTls(gateway, "", { checkServerIdentity: () => undefined }))).toBe("a");
    });

    test("ignores the TLS settings of the backend", async () => {
      const backend = await tlsBackend("a", { tls: { hostname: "other.example" } });
      const gateway = await startTls([streamListener("TLS", [tlsRoute("r", ["a.example"], backend)])], [backend]);
      expect(await firstText(await openTls(gateway, "a.example"))).toBe("a");
    });

    test("resets connections if no endpoint can be reached", async () => {
      const backend = streamBackend("a", []);
      const gateway = await startTls([streamListener("TLS", [tlsRoute("r", ["a.example"], backend)])], [backend]);
      await expect(openTls(gateway, "a.example")).rejects.toMatchObject({ code: "ECONNRESET" });
    });

    test.each([
      ["HTTP", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "pass", "ECONNRESET"],
      ["a malformed ClientHello", malformedHello, "pass", "ECONNRESET"],
      ["HTTP", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "end", "ECONNRESET"],
      // The alert decode_error.
      ["a malformed ClientHello", malformedHello, "end", "\u0015\u0003\u0003\u0000\u0002\u0002\u0032"],
    ])("closes connections that begin with %s", async (_, bytes, mode, expected) => {
      const rest = mode === "end" ? { tls: tlsOf(gatewayCertificate) } : {};
      const gateway = await startTls([streamListener("TLS", [], rest)], []);
      const client = await openTcp(gateway.port());
      const ended = gateway.ended();
      client.write(Buffer.from(bytes, "latin1"));
      expect(await readAll(client).catch((error: unknown) => (error as { readonly code?: string }).code)).toBe(
        expected,
      );
      expect(await ended).toMatchObject([{ reason: "BadClientHello" }]);
    });

    test("closes connections whose ClientHello does not come in time, however slowly its bytes come", async () => {
      const gateway = await startTls([streamListener("TLS", [])], []);
      const client = await openTcp(gateway.port());
      client.write("\u0016");
      const other = await openTcp(gateway.port());
      await until(() => gateway.dataPlane.tasks().flatMap(({ children }) => children).length === 2);
      gateway.clock.advance(6_000);
      client.write("\u0003");
      gateway.clock.advance(4_000);
      await Promise.all([
        new Promise((resolve) => client.resume().once("close", resolve)),
        once(other.resume(), "end"),
      ]);
      expect(gateway.records).toEqual([]);
    });

    test("accepts a ClientHello in any packets", async () => {
      const { port } = await startTcp((socket) => socket.pipe(socket));
      const backend = streamBackend("a", [port]);
      const gateway = await startTls([streamListener("TLS", [tlsRoute("r", ["a.example"], backend)])], [backend]);
      const hello = await clientHello();
      const client = await openTcp(gateway.port());
      const echoed = readAll(client);
      for (const byte of hello) {
        client.write(Buffer.from([byte]));
        await new Promise(setImmediate);
      }
      client.end();
      // The backend gets all of it.
      expect(await echoed).toBe(hello.toString("latin1"));
    });

    test("works with openssl", async () => {
      const backend = await tlsBackend("a");
      const gateway = await startTls([streamListener("TLS", [tlsRoute("r", ["a.example"], backend)])], [backend]);
      const run = async (name: string): Promise<string> => {
        const options = ["s_client", "-connect", `127.0.0.1:${gateway.port()}`, "-servername", name];
        const child = execFile(openssl, options);
        const output: string[] = [];
        child.stdout?.on("data", (text: string) => output.push(text));
        child.stderr?.on("data", (text: string) => output.push(text));
        child.stdin?.end();
        await once(child, "close");
        return output.join("");
      };
      expect(await run("a.example")).toMatch(/subject=.*CN ?= ?a/);
      expect(await run("c.example")).toMatch(/errno=104|reset by peer/);
    });
  });

  /** The first bytes of node:tls for `a.example`. */
  async function clientHello(): Promise<Buffer> {
    const first = Promise.withResolvers<Buffer>();
    const { port } = await startTcp((socket) => socket.once("data", first.resolve));
    const client = connect({ host: "127.0.0.1", port, servername: "a.example" }).on("error", () => undefined);
    const hello = await first.promise;
    client.destroy();
    return hello;
  }

  describe("that ends TLS", () => {
    async function startTerminating(rest: Partial<ListenerTls> = {}, options: StreamGatewayOptions = {}) {
      const { port } = await startTcp((socket) => {
        socket.write("plain ");
        socket.pipe(socket);
      });
      const backend = streamBackend("p", [port]);
      const listener = streamListener("TLS", [tlsRoute("r", ["*.example"], backend)], {
        tls: tlsOf(gatewayCertificate, rest),
      });
      return { gateway: await startTls([listener], [backend], [], options), backend, listener };
    }

    test("relays plain bytes, and the end of each side", async () => {
      const { gateway } = await startTerminating();
      const client = await openTls(gateway, "b.example");
      const ended = gateway.ended();
      expect(client.getPeerCertificate().subject.CN).toBe("gateway");
      client.end("hello");
      expect(await readAll(client)).toBe("plain hello");
      expect(await ended).toMatchObject([
        { receivedBytes: 5, sentBytes: 11, reason: "ClientClosed", serverName: "b.example" },
      ]);
    });

    test("selects no protocol, so that any client gets through", async () => {
      const { gateway } = await startTerminating();
      const client = await openTls(gateway, "b.example", { ALPNProtocols: ["h2", "http/1.1"] });
      expect(client.alpnProtocol).toBe(false);
    });

    test("sends unrecognized_name for a name without a route, and closes connections without an endpoint", async () => {
      const tls = tlsOf(gatewayCertificate);
      const backend = streamBackend("none", []);
      const gateway = await startTls(
        [streamListener("TLS", [tlsRoute("r", ["a.example"], backend)], { tls })],
        [backend],
      );
      await expect(openTls(gateway, "b.example")).rejects.toThrow("unrecognized name");
      const ended = gateway.ended();
      const client = await openTls(gateway, "a.example", { checkServerIdentity: () => undefined });
      client.resume();
      expect(await ended).toMatchObject([{ reason: "NoReadyEndpoint" }]);
    });

    test("records a handshake that fails", async () => {
      const { gateway } = await startTerminating({ minVersion: "TLSv1.3" });
      const ended = gateway.ended();
      await expect(openTls(gateway, "b.example", { maxVersion: "TLSv1.2" })).rejects.toThrow();
      expect(await ended).toMatchObject([{ reason: "TlsFailure", attempts: 0 }]);
    });

    test("calls a backend with TLS by TLS", async () => {
      const backend = await tlsBackend("inner", { tls: { hostname: "a.example", authorities: [ca] } });
      const listener = streamListener("TLS", [tlsRoute("r", ["*.example"], backend)], {
        tls: tlsOf(gatewayCertificate),
      });
      const gateway = await startTls([listener], [backend]);
      const client = await openTls(gateway, "b.example");
      const text = readAll(client);
      client.end(" echoed");
      expect(await text).toBe("inner echoed");
    });

    test("does not end the stream of a client whose backend has reset it", async () => {
      const { port } = await startTcp((socket) => {
        socket.write("part", () => setImmediate(() => socket.resetAndDestroy()));
      });
      const backend = streamBackend("p", [port]);
      const listener = streamListener("TLS", [tlsRoute("r", ["*.example"], backend)], {
        tls: tlsOf(gatewayCertificate),
      });
      const gateway = await startTls([listener], [backend]);
      const ended = gateway.ended();
      await openTls(gateway, "b.example").catch(() => undefined);
      expect(await ended).toMatchObject([{ reason: "BackendReset", sentBytes: 4 }]);
    });

    test("validates the certificates of clients", async () => {
      const { gateway } = await startTerminating({
        clientValidation: { authorities: [authority.authority.cert], mode: "AllowValidOnly" },
      });
      const { cert, key } = authority.issue("client", "DNS:client.example");
      expect(await firstText(await openTls(gateway, "b.example", { cert, key }))).toContain("plain");
      const ended = gateway.ended();
      // TLS 1.3 lets the client believe that the handshake is done before its certificate is checked.
      openTls(gateway, "b.example").catch(() => undefined);
      expect(await ended).toMatchObject([{ reason: "TlsFailure", attempts: 0 }]);
    });
  });

  test("the second ClientHello of a client names the same server, whose listener validates it", async () => {
    const { port } = await startTcp((socket) => void socket.resume().once("end", () => socket.end("plain")));
    const backend = streamBackend("p", [port]);
    const validating = tlsOf(gatewayCertificate, {
      clientValidation: { authorities: [authority.authority.cert], mode: "AllowValidOnly" },
    });
    const listenerOf = (name: string, tls: ListenerTls): StreamListener =>
      streamListener("TLS", [tlsRoute(name, [`${name}.example`], backend)], { name, hostname: `${name}.example`, tls });
    const gateway = await startTls(
      [listenerOf("b", validating), listenerOf("c", tlsOf(gatewayCertificate))],
      [backend],
    );
    const endOf = async (names: readonly [string, string]): Promise<unknown> => {
      const ended = gateway.ended();
      const client = await openTcp(gateway.port());
      await sendTwoHellos(client, names).catch(() => undefined);
      client.end();
      const [record] = await ended;
      return [record?.route, record?.attempts, record?.reason];
    };
    expect(await endOf(["c.example", "c.example"])).toEqual(["TLSRoute/default/c", 1, "ClientClosed"]);
    expect(await endOf(["b.example", "b.example"])).toEqual(["TLSRoute/default/b", 0, "TlsFailure"]);
    expect(await endOf(["b.example", "c.example"])).toEqual(["TLSRoute/default/b", 0, "TlsFailure"]);
  });

  describe("on the port of HTTPS listeners", () => {
    test("gets the connections of its names, and HTTPS those of its own, the most specific name first", async () => {
      const backend = await tlsBackend("a");
      const routes = [tlsRoute("r", ["*.wild.example"], backend)];
      const gateway = await startTls(
        [streamListener("TLS", routes, { hostname: "*.wild.example" })],
        [backend],
        [httpsListener("b.wild.example"), { ...httpsListener("*.example"), key: "default/web/other" }],
      );
      expect(await firstText(await openTls(gateway, "a.wild.example"))).toBe("a");
      expect(await httpsStatus(gateway, "c.example")).toBe(404);
      const insecure = { checkServerIdentity: () => undefined };
      expect((await openTls(gateway, "b.wild.example", { ...insecure, ALPNProtocols: ["h2"] })).alpnProtocol).toBe(
        "h2",
      );
      // A connection of HTTPS does not carry requests for a host of the TLS listener.
      expect(await httpsStatus(gateway, "c.example", "a.wild.example")).toBe(421);
      await expect(openTls(gateway, "other.test")).rejects.toMatchObject({ code: "ECONNRESET" });
    });

    test("gets and loses them with the snapshot, while open connections stay", async () => {
      const backend = await tlsBackend("a");
      const stream = streamListener("TLS", [tlsRoute("r", ["a.example"], backend)], { hostname: "a.example" });
      const https = httpsListener(undefined);
      const without = { binds: [{ ...streamBind([]), listeners: [https], streams: [] }], backends: [] };
      const gateway = await startStreams(without);
      expect(await httpsStatus(gateway, "c.example")).toBe(404);
      await gateway.apply({ binds: [streamBind([stream], { listeners: [https] })], backends: [backend] });
      const client = await openTls(gateway, "a.example");
      expect(await firstText(client)).toBe("a");
      const ended = gateway.ended();
      await gateway.apply(without);
      expect(await ended).toMatchObject([{ reason: "RouteChanged" }]);
    });
  });
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate);
}
