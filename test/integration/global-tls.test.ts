/** A rate limit service that is named by a Backend and asks for TLS, with a certificate of the proxy's own. */
import { mkdtempSync, rmSync } from "node:fs";
import { createSecureServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { answering, startBackend } from "../support/backend.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { ask, byAddress, globalPolicy, serveUnder } from "../support/global-policy.ts";
import { answerGrpc, okMessage } from "../support/rate-limit-service.ts";

const inYaml = (text: string): string => JSON.stringify(text);

describeWith(["openssl"], "a service behind TLS", ({ openssl }) => {
  test.each([
    ["trusts the Backend's authority and shows the Backend's certificate", "ours", 200],
    ["is not asked when another authority vouches for it", "another", 503],
  ])("%s", async (_, trusted, status) => {
    const directory = mkdtempSync(join(tmpdir(), "gatewayproxy-tls-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const ours = new TestAuthority(openssl, directory, "ours");
    const another = new TestAuthority(openssl, directory, "another");
    const server = ours.issue("server", "DNS:ratelimit.internal");
    const client = ours.issue("client", "DNS:proxy");
    const service = createSecureServer({
      cert: server.cert,
      key: server.key,
      ca: ours.authority.cert,
      requestCert: true,
      rejectUnauthorized: true,
    });
    service.on("stream", (stream: ServerHttp2Stream) => {
      stream.resume();
      stream.on("end", () => answerGrpc(stream, okMessage));
    });
    service.on("sessionError", () => undefined);
    await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void service.close());
    // A TCP server that listens has such an address.
    const { port } = service.address() as AddressInfo;
    const authority = (trusted === "ours" ? ours : another).authority.cert;
    const gateway = await serveUnder(
      await startBackend(answering(200)),
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
    expect((await ask(gateway)).status).toBe(status);
  });
});
