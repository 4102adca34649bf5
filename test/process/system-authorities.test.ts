/** The programs trust the authorities of the machine, in each of their threads. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ServerCredentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { response, startXdsServer } from "../../ratelimit-service/src/config/xds/testing/xds-server.ts";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { gatewayManifest, manifests, routeManifest, serviceManifest } from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";
import { startRedis } from "../support/redis-server.ts";

describeWith(["openssl", "redis-server"], "an authority of the machine", (program) => {
  let folder = "";
  let authority: TestAuthority;
  let server: Certificate;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "system-authorities-"));
    authority = new TestAuthority(program.openssl, folder, "machine");
    server = authority.issue("server", "IP:127.0.0.1", "DNS:api.example.com");
    writeFileSync(join(folder, "limits.yaml"), "domain: d\n");
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const trusting = () => ({ SSL_CERT_FILE: authority.authority.certFile, SSL_CERT_DIR: folder });

  test.each(["1", "2"])("is trusted by the rate limit service for Redis, with %s workers", async (workers) => {
    const port = await freePort();
    const files = ["--tls-cert-file", server.certFile, "--tls-key-file", server.keyFile];
    const trust = ["--tls-ca-cert-file", authority.authority.certFile, "--tls-auth-clients", "no"];
    const redis = await startRedis(program["redis-server"], ["--tls-port", String(port), ...files, ...trust]);
    onTestFinished(() => redis.close());
    const start = async (env: Readonly<Record<string, string>>) => {
      const settings = { REDIS_URL: `127.0.0.1:${port}`, REDIS_TLS: "true", WORKERS: workers, ...env };
      const service = await startRateLimitService(folder, settings);
      onTestFinished(() => service.kill());
      const client = connectRateLimit(service.grpcPort);
      onTestFinished(() => client.close());
      return { ...service, client };
    };
    const trusts = await start(trusting());
    await expect.poll(() => trusts.client.health("ratelimit")).toBe("SERVING");
    const call = { domain: "d", descriptors: [{ ...descriptor("k=v"), limit: { requestsPerUnit: 1, unit: "DAY" } }] };
    expect(await trusts.client.send(call as never)).toMatchObject({ overallCode: "OK" });

    const empty = mkdtempSync(join(folder, "empty-"));
    const { output } = await start({ SSL_CERT_FILE: "/dev/null", SSL_CERT_DIR: empty });
    const failure = () => output.find((line) => line.includes("store fails"));
    await expect.poll(failure).toContain("certificate");
  });

  test("is trusted by the rate limit service for its xDS server", async () => {
    const pair = { private_key: Buffer.from(server.key), cert_chain: Buffer.from(server.cert) };
    const xds = await startXdsServer(ServerCredentials.createSsl(null, [pair], false));
    onTestFinished(() => xds.close());
    const limit = { unit: "DAY", requestsPerUnit: 1 } as const;
    const config = { name: "d", domain: "d", descriptors: [{ key: "k", rateLimit: limit }] };
    void xds.streams.next().then((stream) => stream.write(response("1", config)));
    const start = async (env: Readonly<Record<string, string>>) => {
      const settings = {
        ...{ CONFIG_TYPE: "GRPC_XDS_SOTW", CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${xds.port}` },
        ...{ CONFIG_GRPC_XDS_SERVER_USE_TLS: "true", FORCE_START_WITHOUT_INITIAL_CONFIG: "true" },
      };
      const service = await startRateLimitService(undefined, { ...settings, ...env });
      onTestFinished(() => service.kill());
      return service;
    };
    const client = connectRateLimit((await start(trusting())).grpcPort);
    onTestFinished(() => client.close());
    await expect
      .poll(() => client.outcome({ domain: "d", descriptors: [descriptor("k=v")] }))
      .toMatchObject({ overallCode: "OK", statuses: [{ currentLimit: { unit: "DAY", requestsPerUnit: 1 } }] });

    const { output } = await start({ SSL_CERT_FILE: "/dev/null", SSL_CERT_DIR: mkdtempSync(join(folder, "empty-")) });
    const failure = () => output.find((line) => line.includes("no configuration from the xDS server"));
    await expect.poll(failure).toContain("certificate");
  });

  test("is trusted by the proxy for a certificate of the host name of the backend, and for no other", async () => {
    const backend = createServer({ cert: server.cert, key: server.key }, (_, response) => response.end("from tls"));
    await new Promise<void>((resolve) => backend.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void backend.close());
    // A listening TCP server has such an address.
    const { port } = backend.address() as AddressInfo;
    const listen = await freePort();
    const policy = (service: string, hostname: string): string => `
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: { name: ${service}, namespace: default }
spec:
  targetRefs: [{ group: "", kind: Service, name: ${service} }]
  validation: { wellKnownCACertificates: System, hostname: ${hostname} }
`;
    const files = {
      "all.yaml": manifests(
        gatewayManifest(listen),
        routeManifest("r", [
          "{ backendRefs: [{ name: svc, port: 80 }] }",
          "{ matches: [{ path: { value: /else } }], backendRefs: [{ name: else, port: 80 }] }",
        ]),
        serviceManifest("svc", [port]),
        policy("svc", "api.example.com"),
        serviceManifest("else", [port]),
        policy("else", "else.example.com"),
      ),
    };
    const proxy = await startProxy(files, ["--workers", "1"], trusting());
    const send = (path: string) => fetch(`http://127.0.0.1:${listen}${path}`, { headers: { host: "example.com" } });
    expect(await (await send("/")).text()).toBe("from tls");
    // The certificate is trusted, but is not for this host name.
    expect((await send("/else")).status).toBe(503);
    proxy.kill("SIGTERM");
  });
});
