/** Client certificates on HTTPS listeners (Gateway API `spec.tls.frontend`), with real handshakes. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { backendManifest, backendRef, manifests, routeManifest, startGateway } from "../support/gateway.ts";
import {
  authorityManifest,
  openHttp2,
  openTls,
  sendHttp2,
  sendTls,
  tlsGatewayManifest,
  tlsListener,
  tlsSecretManifest,
} from "../support/tls.ts";

describeWith(["openssl"], "client certificates", ({ openssl }) => {
  let directory: string;
  let first: TestAuthority;
  let second: TestAuthority;
  let server: Certificate;
  let ofFirst: Certificate;
  let ofSecond: Certificate;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "listeners-mtls-"));
    first = new TestAuthority(openssl, directory, "first");
    second = new TestAuthority(openssl, directory, "second");
    server = first.issue("server", "DNS:a.example", "DNS:b.example");
    ofFirst = first.issue("client-1", "DNS:client");
    ofSecond = second.issue("client-2", "DNS:client");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  const refs = (...names: readonly string[]) =>
    `caCertificateRefs: [${names.map((name) => `{ group: "", kind: ConfigMap, name: ${name} }`).join(", ")}]`;
  const validation = (names: readonly string[], mode = "AllowValidOnly") =>
    `{ validation: { ${refs(...names)}, mode: ${mode} } }`;

  async function start(...gateways: readonly string[]) {
    const { port } = await startBackend(respondWith(200, "ok"));
    const rest = [
      tlsSecretManifest("server", server),
      authorityManifest("first", first.authority),
      authorityManifest("second", second.authority),
      backendManifest("b", port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
    ];
    const all = (...texts: readonly string[]) => manifests(...texts, ...rest);
    return { gateway: await startGateway(all(...gateways)), all };
  }

  const ports = ["server"].map((secret) => tlsListener("https", [secret]));
  const other = tlsListener("other", ["server"]).replace("port: 443", "port: 8443");
  const trust = () => ({ ca: first.authority.cert });

  test("by default only certificates of a trusted authority are accepted", async () => {
    const frontend = `tls: { frontend: { default: ${validation(["first"])} } }`;
    const { gateway } = await start(tlsGatewayManifest(ports, frontend));
    expect((await sendTls(gateway, "a.example", { ...trust(), ...pick(ofFirst) })).status).toBe(200);
    await expect(sendTls(gateway, "a.example", { ...trust(), ...pick(ofSecond) })).rejects.toThrow();
    await expect(sendTls(gateway, "a.example", trust())).rejects.toThrow();
    expect(gateway.records.length).toBe(1);
  });

  test("a port may have its own validation, or none", async () => {
    const perPort = `perPort: [{ port: 8443, tls: ${validation(["second"])} }, { port: 9443, tls: {} }]`;
    const frontend = `tls: { frontend: { default: ${validation(["first"])}, ${perPort} } }`;
    const open = tlsListener("open", ["server"]).replace("port: 443", "port: 9443");
    const { gateway } = await start(tlsGatewayManifest([...ports, other, open], frontend));
    expect((await sendTls(gateway, "a.example", { ...trust(), ...pick(ofFirst) }, 443)).status).toBe(200);
    expect((await sendTls(gateway, "a.example", { ...trust(), ...pick(ofSecond) }, 8443)).status).toBe(200);
    await expect(sendTls(gateway, "a.example", { ...trust(), ...pick(ofFirst) }, 8443)).rejects.toThrow();
    expect((await sendTls(gateway, "a.example", trust(), 9443)).status).toBe(200);
  });

  test("several authorities are trusted together", async () => {
    const frontend = `tls: { frontend: { default: ${validation(["first", "second"])} } }`;
    const { gateway } = await start(tlsGatewayManifest(ports, frontend));
    for (const client of [ofFirst, ofSecond]) {
      expect((await sendTls(gateway, "a.example", { ...trust(), ...pick(client) })).status).toBe(200);
    }
  });

  test("AllowInsecureFallback requests a certificate and accepts all clients", async () => {
    const frontend = `tls: { frontend: { default: ${validation(["first"], "AllowInsecureFallback")} } }`;
    const { gateway } = await start(tlsGatewayManifest(ports, frontend));
    for (const client of [pick(ofFirst), pick(ofSecond), {}]) {
      expect((await sendTls(gateway, "a.example", { ...trust(), ...client })).status).toBe(200);
    }
  });

  test("AllowInsecureFallback accepts a certificate that only claims to be of the trusted authority", async () => {
    mkdirSync(join(directory, "forged"));
    const forger = new TestAuthority(openssl, join(directory, "forged"), "first");
    const frontend = `tls: { frontend: { default: ${validation(["first"], "AllowInsecureFallback")} } }`;
    const { gateway } = await start(tlsGatewayManifest(ports, frontend));
    const forged = pick(forger.issueByName("client", "DNS:client"));
    // A client that knows the real authority would send its certificate too.
    const client = { ...forged, rejectUnauthorized: false };
    expect((await sendTls(gateway, "a.example", client)).status).toBe(200);
  });

  test("no session can be resumed without a certificate: the server sends no tickets", async () => {
    const frontend = `tls: { frontend: { default: ${validation(["first"])} } }`;
    const { gateway } = await start(tlsGatewayManifest(ports, frontend));
    const socket = await openTls(gateway, { ...trust(), ...pick(ofFirst), servername: "a.example" });
    const sessions: Buffer[] = [];
    socket.on("session", (session: Buffer) => sessions.push(session));
    await new Promise((resolve) => setImmediate(resolve));
    for (const session of sessions) {
      const resumed = await openTls(gateway, { ...trust(), ...pick(ofFirst), servername: "a.example", session });
      expect(resumed.isSessionReused()).toBe(false);
    }
    await expect(sendTls(gateway, "a.example", { ...trust(), session: socket.getSession() })).rejects.toThrow();
  });

  test("Gateways that share a port have their own validation, and a connection to one cannot reach the other", async () => {
    const strict = tlsGatewayManifest(
      [tlsListener("b", ["server"], "hostname: b.example")],
      `tls: { frontend: { default: ${validation(["second"])} } }`,
      "strict",
    );
    const web = tlsGatewayManifest([tlsListener("a", ["server"], "hostname: a.example")]);
    const { gateway } = await start(web, strict);
    expect((await sendTls(gateway, "a.example", trust())).status).toBe(200);
    await expect(sendTls(gateway, "b.example", trust())).rejects.toThrow();
    await expect(sendTls(gateway, "b.example", { ...trust(), ...pick(ofFirst) })).rejects.toThrow();
    // The certificate is accepted; this host has no route.
    expect((await sendTls(gateway, "b.example", { ...trust(), ...pick(ofSecond) })).status).toBe(404);
    const session = await openHttp2(gateway, { ...trust(), servername: "a.example" });
    expect((await sendHttp2(session, "b.example")).status).toBe(421);
  });

  test("a connection that was validated before an edit of the validation gets 421", async () => {
    const { gateway, all } = await start(tlsGatewayManifest(ports));
    const session = await openHttp2(gateway, { ...trust(), servername: "a.example" });
    expect((await sendHttp2(session, "a.example")).status).toBe(200);
    await gateway.apply(all(tlsGatewayManifest(ports, `tls: { frontend: { default: ${validation(["first"])} } }`)));
    expect((await sendHttp2(session, "a.example")).status).toBe(421);
    expect((await sendTls(gateway, "a.example", { ...trust(), ...pick(ofFirst) })).status).toBe(200);
  });
});

function pick({ cert, key }: Certificate): { readonly cert: string; readonly key: string } {
  return { cert, key };
}
