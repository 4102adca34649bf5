/** A rate limit service behind TLS: referred to by a Backend with a client certificate, or by a Service. */
import { mkdtempSync, rmSync } from "node:fs";
import { createSecureServer, type SecureServerOptions, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { serviceManifest } from "../support/gateway.ts";
import { byAddress, globalPolicy, send, serveUnder } from "../support/global-policy.ts";
import { okMessage, respondGrpc } from "../support/rate-limit-service.ts";
import { authorityManifest } from "../support/tls.ts";

const inYaml = (text: string): string => JSON.stringify(text);

describeWith(["openssl"], "a service behind TLS", ({ openssl }) => {
  let directory = "";
  let ours: TestAuthority;
  let another: TestAuthority;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "gatewayproxy-tls-"));
    ours = new TestAuthority(openssl, directory, "ours");
    another = new TestAuthority(openssl, directory, "another");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  /**
   * A service that allows all requests, with a certificate of the authority `ours` for these names; resolves with its
   * port.
   */
  async function startService(names: readonly string[], options: SecureServerOptions = {}): Promise<number> {
    const { cert, key } = ours.issue("server", ...names);
    const service = createSecureServer({ cert, key, ...options });
    service.on("stream", (stream: ServerHttp2Stream) => {
      stream.resume();
      stream.on("end", () => respondGrpc(stream, okMessage));
    });
    service.on("sessionError", () => undefined);
    await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void service.close());
    // A listening TCP server has such an address.
    return (service.address() as AddressInfo).port;
  }

  test.each([
    ["gets the Backend's client certificate if the Backend trusts its authority", "ours", 200],
    ["gets no call with a certificate of another authority", "another", 503],
  ])("%s", async (_, trusted, status) => {
    const client = ours.issue("client", "DNS:proxy");
    const port = await startService(["DNS:ratelimit.internal"], {
      ca: ours.authority.cert,
      requestCert: true,
      rejectUnauthorized: true,
    });
    const authority = (trusted === "ours" ? ours : another).authority.cert;
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      `
apiVersion: v1
kind: Secret
metadata: { name: tls, namespace: default }
stringData: { ca.crt: ${inYaml(authority)}, tls.crt: ${inYaml(client.cert)}, tls.key: ${inYaml(client.key)} }
`,
      `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ratelimit, namespace: default }
spec: { static: { host: 127.0.0.1, port: ${port}, tls: { hostname: ratelimit.internal, caRef: { name: tls }, clientCertificateRef: { name: tls } } } }
`,
      globalPolicy(
        `backendRef: { group: gatewayproxy.dev, kind: Backend, name: ratelimit }, failureMode: Closed, ${byAddress}`,
      ),
    );
    expect((await send(gateway)).status).toBe(status);
  });

  test.each([
    ["of its hostname gets calls", "", 200],
    ["of one of subjectAltNames gets calls", "{ type: URI, uri: 'spiffe://example.com/limits' }", 200],
    ["of none of subjectAltNames gets no call", "{ type: URI, uri: 'spiffe://example.com/else' }", 503],
    ["of the hostname gets no call if subjectAltNames differ", "{ type: Hostname, hostname: a.example }", 503],
  ])("under a BackendTLSPolicy with the certificate %s", async (_, names, status) => {
    const port = await startService(["DNS:ratelimit.internal", "URI:spiffe://example.com/limits"]);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      serviceManifest("ratelimit", [port]),
      authorityManifest("ca", ours.authority),
      `
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: { name: policy, namespace: default }
spec:
  targetRefs: [{ group: "", kind: Service, name: ratelimit }]
  validation:
    caCertificateRefs: [{ group: "", kind: ConfigMap, name: ca }]
    hostname: ratelimit.internal
    subjectAltNames: [${names}]
`,
      globalPolicy(`backendRef: { name: ratelimit, port: 80 }, failureMode: Closed, ${byAddress}`),
    );
    expect((await send(gateway)).status).toBe(status);
  });
});
