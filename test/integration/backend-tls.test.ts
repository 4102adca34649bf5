/** TLS to backends: BackendTLSPolicies, and the client certificate of a Gateway. */
import { mkdtempSync, rmSync } from "node:fs";
import { createSecureServer } from "node:http2";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { manifests, routeManifest, serviceManifest, startGateway } from "../support/gateway.ts";
import { authorityManifest, tlsGatewayManifest, tlsSecretManifest } from "../support/tls.ts";

const http = "{ name: http, port: 80, protocol: HTTP }";
const route = routeManifest("r", ["backendRefs: [{ name: svc, port: 80 }]"]);

/** A policy on the Service `svc`; `validation` is flow YAML without its braces. */
function policyManifest(validation: string, name = "policy", target = "name: svc"): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: { name: ${name}, namespace: default }
spec:
  targetRefs: [{ group: "", kind: Service, ${target} }]
  validation: { ${validation} }
`;
}

const trusts = (name: string): string => `caCertificateRefs: [{ group: "", kind: ConfigMap, name: ${name} }]`;

describeWith(["openssl"], "a backend over TLS", ({ openssl }) => {
  let folder = "";
  let authority: TestAuthority;
  let other: TestAuthority;
  let server: Certificate;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "backend-tls-"));
    authority = new TestAuthority(openssl, folder, "ours");
    other = new TestAuthority(openssl, folder, "other");
    server = authority.issue("server", "DNS:api.example.com", "URI:spiffe://example.com/api");
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Responds with the server name of the handshake and the client's certificate, as JSON. */
  async function startTlsBackend(options: { requestCert?: boolean } = {}): Promise<{ port: number; server: Server }> {
    const backend = createServer(
      { cert: server.cert, key: server.key, ca: authority.authority.cert, ...options },
      (request, response) => {
        const { socket } = request;
        if (!(socket instanceof TLSSocket)) throw new Error("the socket of a TLS server is no TLSSocket");
        const { subject } = options.requestCert === true ? socket.getPeerCertificate() : {};
        response.end(JSON.stringify({ servername: socket.servername, client: subject?.CN }));
      },
    );
    await new Promise<void>((resolve) => backend.listen(0, "127.0.0.1", resolve));
    onTestFinished(async () => {
      backend.closeAllConnections();
      await new Promise((resolve) => backend.close(resolve));
    });
    // A listening TCP server has such an address.
    return { port: (backend.address() as AddressInfo).port, server: backend };
  }

  function start(port: number, ...more: readonly string[]) {
    const service = serviceManifest("svc", [port]);
    const authorities = [authorityManifest("ca", authority.authority), authorityManifest("others", other.authority)];
    return startGateway(manifests(tlsGatewayManifest([http]), service, route, ...authorities, ...more));
  }

  /** The status of a request through a gateway with this policy. */
  async function statusWith(validation: string): Promise<number> {
    const { port } = await startTlsBackend();
    const gateway = await start(port, policyManifest(validation));
    return (await fetch(gateway.url(), { headers: { host: "client.example" } })).status;
  }

  describe("by a BackendTLSPolicy", () => {
    test("gets the policy's hostname as the server name, whatever the client requested", async () => {
      const { port } = await startTlsBackend();
      const gateway = await start(port, policyManifest(`${trusts("ca")}, hostname: api.example.com`));
      expect(await (await fetch(gateway.url())).json()).toEqual({ servername: "api.example.com" });
    });

    test("with the certificate of another name gets no request", async () => {
      expect(await statusWith(`${trusts("ca")}, hostname: else.example.com`)).toBe(503);
    });

    test("with a certificate of another authority gets no request", async () => {
      expect(await statusWith(`${trusts("others")}, hostname: api.example.com`)).toBe(503);
    });

    test.each([
      ["has no known authority", (): string => `${trusts("missing")}, hostname: api.example.com`],
      ["has a policy that the parser rejects", (): string => `${trusts("ca")}, hostname: API.example.com`],
    ])("that %s gets no request without TLS either", async (_case, validation) => {
      const { port, server: backend } = await startTlsBackend();
      let connections = 0;
      backend.on("connection", () => connections++);
      const authorities = authorityManifest("ca", authority.authority);
      const gateway = await startGateway(
        manifests(
          tlsGatewayManifest([http]),
          serviceManifest("svc", [port]),
          route,
          authorities,
          policyManifest(validation()),
        ),
        { expectsProblems: true },
      );
      expect((await fetch(gateway.url())).status).toBe(500);
      expect(gateway.records[0]).toMatchObject({ reason: "InvalidBackend" });
      expect(connections).toBe(0);
    });

    test.each([
      ["its DNS name", "{ type: Hostname, hostname: api.example.com }", 200],
      ["another DNS name", "{ type: Hostname, hostname: else.example.com }", 503],
      ["its URI", "{ type: URI, uri: 'spiffe://example.com/api' }", 200],
      ["a longer URI", "{ type: URI, uri: 'spiffe://example.com/api/v2' }", 503],
      [
        "has one of two names",
        "{ type: URI, uri: 'spiffe://else' }, { type: Hostname, hostname: api.example.com }",
        200,
      ],
      ["a wildcard that it does not have", '{ type: Hostname, hostname: "*.example.com" }', 503],
    ])("subjectAltNames with %s", async (_case, names, status) => {
      // The hostname is sent in SNI but not verified.
      const hostname = "hostname: selects.example.com";
      expect(await statusWith(`${trusts("ca")}, ${hostname}, subjectAltNames: [${names}]`)).toBe(status);
    });

    test("for a port takes precedence over a policy for the Service", async () => {
      const { port } = await startTlsBackend();
      const whole = policyManifest(`${trusts("ca")}, hostname: else.example.com`, "a-whole");
      const named = policyManifest(
        `${trusts("ca")}, hostname: api.example.com`,
        "b-port",
        "name: svc, sectionName: main",
      );
      const gateway = await start(port, whole, named);
      expect((await fetch(gateway.url())).status).toBe(200);
    });

    test("uses a changed authority", async () => {
      const { port } = await startTlsBackend();
      const service = serviceManifest("svc", [port]);
      const policy = policyManifest(`${trusts("ca")}, hostname: api.example.com`);
      const world = (ca: Certificate): string =>
        manifests(tlsGatewayManifest([http]), service, route, authorityManifest("ca", ca), policy);
      const gateway = await startGateway(world(other.authority));
      expect((await fetch(gateway.url())).status).toBe(503);
      await gateway.apply(world(authority.authority));
      expect((await fetch(gateway.url())).status).toBe(200);
    });

    test("speaks HTTP/2 by ALPN where the port's appProtocol says so", async () => {
      const secure = createSecureServer({ cert: server.cert, key: server.key });
      secure.on("request", (request, response) => response.end(request.httpVersion));
      await new Promise<void>((resolve) => secure.listen(0, "127.0.0.1", resolve));
      onTestFinished(() => void secure.close());
      // A listening TCP server has such an address.
      const { port } = secure.address() as AddressInfo;
      const service = serviceManifest("svc", [port], "appProtocol: kubernetes.io/h2c");
      const policy = policyManifest(`${trusts("ca")}, hostname: api.example.com`);
      const ca = authorityManifest("ca", authority.authority);
      const gateway = await startGateway(manifests(tlsGatewayManifest([http]), service, route, ca, policy));
      expect(await (await fetch(gateway.url())).text()).toBe("2.0");
    });
  });

  describe("that requests a client certificate", () => {
    test("gets that of the Gateway, and of no other Gateway", async () => {
      const { port } = await startTlsBackend({ requestCert: true });
      const certificate = "tls: { backend: { clientCertificateRef: { name: client } } }";
      const gateway = await startGateway(
        manifests(
          tlsGatewayManifest([http], certificate),
          tlsGatewayManifest(["{ name: http, port: 81, protocol: HTTP }"], "", "plain"),
          serviceManifest("svc", [port]),
          route.replace("[{ name: web }]", "[{ name: web }, { name: plain }]"),
          authorityManifest("ca", authority.authority),
          policyManifest(`${trusts("ca")}, hostname: api.example.com`),
          tlsSecretManifest("client", authority.issue("client", "DNS:client.example")),
        ),
      );
      expect(await (await fetch(gateway.url())).json()).toMatchObject({ client: "client" });
      // In TLS 1.3 a server rejects the certificate after the client has begun to send.
      expect([502, 503]).toContain((await fetch(gateway.url(81))).status);
      expect(gateway.records[0]?.backend).toBe("Service/default/svc:80 for default/web");
    });
  });
});
