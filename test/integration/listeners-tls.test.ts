/** HTTPS listeners, end to end: certificates, names, versions and protocols, with real handshakes. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { type Echo, respondWith, startBackend } from "../support/backend.ts";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import {
  backendManifest,
  backendRef,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";
import {
  openHttp2,
  openTls,
  sendHttp2,
  sendOn,
  sendTls,
  tlsGatewayManifest,
  tlsListener,
  tlsSecretManifest,
} from "../support/tls.ts";
import { startWebSocketBackend } from "../support/upgrades.ts";

describeWith(["openssl"], "an HTTPS listener", ({ openssl }) => {
  let directory: string;
  let ca: string;
  let authority: TestAuthority;
  let a: Certificate;
  let b: Certificate;
  let wildcard: Certificate;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "listeners-tls-"));
    authority = new TestAuthority(openssl, directory, "authority");
    ca = authority.authority.cert;
    a = authority.issue("a", "DNS:a.example");
    b = authority.issue("b", "DNS:b.example");
    wildcard = authority.issue("wildcard", "DNS:*.wild.example", "DNS:wild.example");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  /** A backend that echoes the request, its route, and the Gateway with these listeners. */
  async function start(listeners: readonly string[], ...more: readonly string[]) {
    const { port } = await startBackend();
    const rest = [backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`]), ...more];
    const withListeners = (all: readonly string[], ...extra: readonly string[]) =>
      manifests(tlsGatewayManifest(all), ...rest, ...extra);
    return { gateway: await startGateway(withListeners(listeners)), withListeners };
  }

  function commonName(certificate: { readonly subject?: { readonly CN?: string | string[] } }): unknown {
    return certificate.subject?.CN;
  }

  test("responds over TLS, and the backend gets X-Forwarded-Proto https", async () => {
    const { gateway } = await start([tlsListener("https", ["a"])], tlsSecretManifest("a", a));
    const { status, body } = await sendTls(gateway, "a.example", { ca });
    expect(status).toBe(200);
    expect((JSON.parse(body) as Echo).headers).toMatchObject({
      host: "a.example",
      "x-forwarded-proto": "https",
      "x-forwarded-for": "127.0.0.1",
    });
    expect(gateway.records[0]).toMatchObject({ scheme: "https", httpVersion: "1.1", listener: "default/web/https" });
  });

  test("serves HTTP/2 if ALPN selects it, and HTTP/1.1 otherwise", async () => {
    const { gateway } = await start([tlsListener("https", ["a"])], tlsSecretManifest("a", a));
    const offering = async (...ALPNProtocols: string[]) =>
      (await openTls(gateway, { ca, servername: "a.example", ...(ALPNProtocols.length > 0 && { ALPNProtocols }) }))
        .alpnProtocol;
    expect(await offering("h2", "http/1.1")).toBe("h2");
    expect(await offering("http/1.1", "h2")).toBe("h2");
    expect(await offering("http/1.1")).toBe("http/1.1");
    expect(await offering()).toBe(false);
    await expect(offering("spdy/3")).rejects.toThrow("no application protocol");

    const session = await openHttp2(gateway, { ca, servername: "a.example" });
    expect((await sendHttp2(session, "a.example")).status).toBe(200);
    await expect.poll(() => gateway.records.at(-1)).toMatchObject({ scheme: "https", httpVersion: "2" });
  });

  test("presents the certificate for the client's server name, among several of one listener", async () => {
    const { gateway } = await start(
      [tlsListener("https", ["a", "b", "wildcard"])],
      tlsSecretManifest("a", a),
      tlsSecretManifest("b", b),
      tlsSecretManifest("wildcard", wildcard),
    );
    const shown = async (servername: string) =>
      commonName((await openTls(gateway, { servername, rejectUnauthorized: false })).getPeerCertificate());
    expect(await shown("a.example")).toBe("a");
    expect(await shown("B.example")).toBe("b");
    expect(await shown("x.wild.example")).toBe("wildcard");
    expect(await shown("wild.example")).toBe("wildcard");
    // No certificate is for this name: the first of the references.
    expect(await shown("c.example")).toBe("a");
    expect(await shown("")).toBe("a");
  });

  test("knows a server name by one spelling, so that others are no new budgets", async () => {
    const limit = "{ requests: 1, unit: Hours, key: tls.serverName }";
    const { gateway } = await start(
      [tlsListener("https", ["a"], "hostname: a.example")],
      tlsSecretManifest("a", a),
      policyManifest("p", "kind: Gateway, name: web", [limit]),
    );
    const statusFor = async (servername: string): Promise<unknown> => {
      const insecure = { servername, rejectUnauthorized: false };
      return (await sendOn(await openTls(gateway, insecure), "a.example").catch(() => ({ status: "closed" }))).status;
    };
    expect(await statusFor("a.example")).toBe(200);
    for (const same of ["A.example", "a.example.", "a.EXAMPLE."]) expect(await statusFor(same)).toBe(429);
    const malformed = ["a.example..", "a.example:1", "a.example.:443", "a.example:x:1", ".a.example", "a.example.:"];
    for (const name of malformed) expect(await statusFor(name).catch(() => "closed")).toBe("closed");
    expect(await statusFor("a.example")).toBe(429);
  });

  test("presents the first of several certificates for one name, whatever their keys", async () => {
    const rsa = authority.issueRsa("rsa", "DNS:a.example");
    const { gateway } = await start(
      [tlsListener("https", ["rsa", "a"])],
      tlsSecretManifest("a", a),
      tlsSecretManifest("rsa", rsa),
    );
    const socket = await openTls(gateway, { ca, servername: "a.example" });
    expect(commonName(socket.getPeerCertificate())).toBe("rsa");
  });

  describe("beside others on one port", () => {
    const listeners = [
      tlsListener("any", ["a"]),
      tlsListener("b", ["b"], "hostname: b.example"),
      tlsListener("wildcard", ["wildcard"], 'hostname: "*.wild.example"'),
      tlsListener("inner", ["wildcard"], "hostname: inner.wild.example"),
    ];
    const secrets = () => [
      tlsSecretManifest("a", a),
      tlsSecretManifest("b", b),
      tlsSecretManifest("wildcard", wildcard),
    ];

    test("is selected by the name in the handshake", async () => {
      const { gateway } = await start(listeners, ...secrets());
      const shown = async (servername: string) =>
        commonName((await openTls(gateway, { servername, rejectUnauthorized: false })).getPeerCertificate());
      expect(await shown("b.example")).toBe("b");
      expect(await shown("x.wild.example")).toBe("wildcard");
      expect(await shown("a.example")).toBe("a");
    });

    // The cases of the conformance suite.
    test.each([
      ["a.example", "a.example", 200],
      ["a.example", "b.example", 421],
      ["a.example", "unknown.example", 200],
      ["b.example", "b.example", 200],
      ["b.example", "a.example", 421],
      ["b.example", "unknown.example", 421],
      ["x.wild.example", "y.wild.example", 200],
      ["x.wild.example", "inner.wild.example", 421],
      ["x.wild.example", "b.example", 421],
      ["inner.wild.example", "inner.wild.example", 200],
      ["inner.wild.example", "y.wild.example", 421],
      ["unknown.example", "a.example", 200],
      ["", "a.example", 200],
      ["", "b.example", 421],
    ])("on a connection for %j, a request for %s gets %i", async (servername, host, status) => {
      const { gateway } = await start(listeners, ...secrets());
      const session = await openHttp2(gateway, { servername, rejectUnauthorized: false });
      expect((await sendHttp2(session, host)).status).toBe(status);
      const reason = status === 421 ? "Misdirected" : undefined;
      await expect.poll(() => gateway.records[0]).toMatchObject({ status, reason });
    });
  });

  test("rejects the handshake for a name without a listener", async () => {
    const { gateway } = await start([tlsListener("b", ["b"], "hostname: b.example")], tlsSecretManifest("b", b));
    await expect(openTls(gateway, { servername: "a.example", ca })).rejects.toThrow("handshake failure");
    await expect(openTls(gateway, { ca })).rejects.toThrow("handshake failure");
    expect((await sendTls(gateway, "b.example", { ca })).status).toBe(200);
  });

  test("uses a new certificate for new connections, and closes none of the old ones", async () => {
    const { gateway, withListeners } = await start([tlsListener("https", ["c"])], tlsSecretManifest("c", a));
    const http1 = await openTls(gateway, { servername: "a.example", ca });
    const http2 = await openHttp2(gateway, { servername: "a.example", ca });
    const renewed = authority.issue("renewed", "DNS:a.example");
    const body = withListeners([tlsListener("https", ["c"])]).replace(
      /data: \{ tls.crt[^]*?\}/,
      `data: { tls.crt: ${Buffer.from(renewed.cert).toString("base64")}, tls.key: ${Buffer.from(renewed.key).toString("base64")} }`,
    );
    await gateway.apply(body);
    const fresh = await openTls(gateway, { servername: "a.example", ca });
    expect(commonName(fresh.getPeerCertificate())).toBe("renewed");
    expect((await sendOn(http1, "a.example")).status).toBe(200);
    expect((await sendHttp2(http2, "a.example")).status).toBe(200);
  });

  test("can be added and removed while others keep their connections", async () => {
    const { gateway, withListeners } = await start(
      [tlsListener("a", ["a"], "hostname: a.example")],
      ...[tlsSecretManifest("a", a), tlsSecretManifest("b", b)],
    );
    const kept = await openHttp2(gateway, { servername: "a.example", ca });
    const both = [tlsListener("a", ["a"], "hostname: a.example"), tlsListener("b", ["b"], "hostname: b.example")];
    await gateway.apply(withListeners(both));
    expect((await sendTls(gateway, "b.example", { ca })).status).toBe(200);
    const leaving = await openHttp2(gateway, { servername: "b.example", ca });
    expect((await sendHttp2(kept, "a.example")).status).toBe(200);
    await gateway.apply(withListeners(both.slice(0, 1)));
    expect((await sendHttp2(kept, "a.example")).status).toBe(200);
    expect((await sendHttp2(leaving, "b.example")).status).toBe(404);
    await expect(openTls(gateway, { servername: "b.example", ca })).rejects.toThrow("handshake failure");
  });

  test("replaces an HTTP listener on its port, whose connections are closed", async () => {
    const plain = "{ name: http, port: 443, protocol: HTTP }";
    const { gateway, withListeners } = await start([plain], tlsSecretManifest("a", a));
    const url = gateway.url(443);
    const session = (await import("node:http2")).connect(url);
    expect((await sendHttp2(session, "a.example")).status).toBe(200);
    await gateway.apply(withListeners([tlsListener("https", ["a"])]));
    expect((await sendHttp2(session, "a.example")).status).toBe(421);
    session.destroy();
    expect((await sendTls(gateway, "a.example", { ca })).status).toBe(200);
    expect((await rawHttp(url, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")).status).toBe(0);
  });

  describe("options", () => {
    const withOptions = (options: string) =>
      tlsListener("https", ["a"]).replace("tls: {", `tls: { options: { ${options} },`);

    test.each([
      ["none", "", ["TLSv1.2", "TLSv1.3"]],
      ["1.3 at least", "gatewayproxy.dev/min-tls-version: '1.3'", ["TLSv1.3"]],
      ["1.2 at most", "gatewayproxy.dev/max-tls-version: '1.2'", ["TLSv1.2"]],
    ])("versions with %s", async (_, options, expected) => {
      const { gateway } = await start([withOptions(options)], tlsSecretManifest("a", a));
      const spoken: string[] = [];
      for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
        const attempt = openTls(gateway, { ca, servername: "a.example", minVersion: version, maxVersion: version });
        await attempt.then(() => spoken.push(version)).catch(() => undefined);
      }
      expect(spoken).toEqual(expected);
    });

    test("TLS 1.1 is never negotiated", async () => {
      const { gateway } = await start([withOptions("")], tlsSecretManifest("a", a));
      const old = { minVersion: "TLSv1.1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" } as const;
      await expect(openTls(gateway, { ca, servername: "a.example", ...old })).rejects.toThrow(/alert|protocol/);
    });

    test("of one listener do not change those of another on its port", async () => {
      const strict = tlsListener("b", ["b"], "hostname: b.example").replace(
        "tls: {",
        "tls: { options: { gatewayproxy.dev/min-tls-version: '1.3', gatewayproxy.dev/alpn-protocols: http/1.1 },",
      );
      const { gateway } = await start(
        [tlsListener("any", ["a"]), strict],
        tlsSecretManifest("a", a),
        tlsSecretManifest("b", b),
      );
      const old = { ca, maxVersion: "TLSv1.2", ALPNProtocols: ["h2", "http/1.1"] } as const;
      expect((await openTls(gateway, { ...old, servername: "a.example" })).alpnProtocol).toBe("h2");
      const fresh = { ca, ALPNProtocols: ["h2", "http/1.1"], servername: "b.example" };
      expect((await openTls(gateway, fresh)).alpnProtocol).toBe("http/1.1");
      await expect(sendTls(gateway, "b.example", { ca, maxVersion: "TLSv1.2" })).rejects.toThrow();
    });

    test("cipher suites restrict the negotiation of TLS 1.2", async () => {
      const suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
      const { gateway } = await start(
        [withOptions(`gatewayproxy.dev/tls12-cipher-suites: ${suite}`)],
        tlsSecretManifest("a", a),
      );
      const socket = await openTls(gateway, { ca, servername: "a.example", maxVersion: "TLSv1.2" });
      expect(socket.getCipher().standardName).toBe(suite);
      const weak = { maxVersion: "TLSv1.2", ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256" } as const;
      await expect(openTls(gateway, { ca, servername: "a.example", ...weak })).rejects.toThrow("handshake failure");
      // TLS 1.3 has its own suites.
      expect((await openTls(gateway, { ca, servername: "a.example" })).getProtocol()).toBe("TLSv1.3");
    });
  });

  test("several Gateways serve from one process, each on its own address and port", async () => {
    const [first, second] = await Promise.all([
      startBackend(respondWith(200, "first")),
      startBackend(respondWith(200, "second")),
    ]);
    const other = tlsGatewayManifest([tlsListener("https", ["b"])], "", "other").replace(
      "value: 127.0.0.1",
      "value: 127.0.0.2",
    );
    const gateway = await startGateway(
      manifests(
        tlsGatewayManifest([tlsListener("https", ["a"]), "{ name: http, port: 80, protocol: HTTP }"]),
        other,
        tlsSecretManifest("a", a),
        tlsSecretManifest("b", b),
        backendManifest("first", first.port),
        backendManifest("second", second.port),
        routeManifest("first", [`backendRefs: [${backendRef("first")}]`]),
        routeManifest("second", [`backendRefs: [${backendRef("second")}]`]).replace("name: web", "name: other"),
      ),
    );
    expect((await sendTls(gateway, "a.example", { ca })).body).toBe("first");
    const port = gateway.dataPlane.portOf("127.0.0.2", 443) ?? 0;
    expect((await sendTls(gateway, "b.example", { ca, host: "127.0.0.2", port })).body).toBe("second");
    const plain = await rawHttp(gateway.url(), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect(plain.body).toContain("first");
  });

  test("serves a WebSocket", async () => {
    const { port } = await startWebSocketBackend();
    const gateway = await startGateway(
      manifests(
        tlsGatewayManifest([tlsListener("https", ["a"])]),
        tlsSecretManifest("a", a),
        backendManifest("b", port),
        routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
      ),
    );
    const url = gateway.url(443).replace("http", "wss");
    // These options go to node:tls unchanged; the types of ws lack some of them.
    const options = { ca, servername: "a.example", headers: { host: "a.example" } };
    const client = new WebSocket(url, options);
    onTestFinished(() => client.terminate());
    await once(client, "open");
    client.send("hello");
    const [message] = (await once(client, "message")) as [Buffer];
    expect(message.toString()).toBe("hello");
    const record = gateway.nextRecord();
    client.close();
    expect(await record).toMatchObject({ scheme: "https", status: 101, reason: undefined });
  });

  test("reads the PROXY protocol before the handshake", async () => {
    const { port } = await startBackend();
    const gateway = await startGateway(
      manifests(
        tlsGatewayManifest([tlsListener("https", ["a"])]),
        tlsSecretManifest("a", a),
        backendManifest("b", port),
        routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
      ),
      { expectsProxyHeader: true },
    );
    const { connect } = await import("node:net");
    for (const alpn of ["http/1.1", "h2"]) {
      const socket = connect(Number(new URL(gateway.url(443)).port), "127.0.0.1");
      socket.write("PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n");
      const options = { ca, servername: "a.example", ALPNProtocols: [alpn], socket };
      if (alpn === "h2") await sendHttp2(await openHttp2(gateway, options), "a.example");
      else await sendTls(gateway, "a.example", options);
      expect(gateway.records.at(-1)?.sourceAddress).toBe("192.0.2.1");
    }
  });
});
