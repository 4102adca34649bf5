/**
 * Objects of a cluster that become invalid: the API server accepts the edit, and their last valid version is still
 * served.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { freePort } from "../support/free-port.ts";
import { describeCluster, eventually } from "./support/cluster.ts";
import { type ControllerProcess, type ControllerSetup, startController } from "./support/controller-process.ts";
import { type GatewayProcess, getStatus, startGatewayProcess } from "./support/gateway-process.ts";
import { gatewayApi } from "../support/api-versions.ts";

const namespace = "last-good";

describeCluster("an object that becomes invalid", (cluster) => {
  let directory: string;
  let first: Certificate;
  let second: Certificate;
  let setup: ControllerSetup;
  let controller: ControllerProcess | undefined;
  let proxy: GatewayProcess | undefined;
  let backend: Server;
  const authorizations: (string | undefined)[] = [];
  let http: number;
  let https: number;

  const certificate = (cert: string, key: string) => `
apiVersion: v1
kind: Secret
metadata: {name: cert, namespace: ${namespace}}
type: kubernetes.io/tls
data: {tls.crt: ${Buffer.from(cert).toString("base64")}, tls.key: ${Buffer.from(key).toString("base64")}}
`;
  const apiKey = (key: string) => `
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: ${namespace}}
stringData: {apiKey: "${key}"}
`;
  const route = (rules: string) => `
apiVersion: ${gatewayApi}
kind: HTTPRoute
metadata: {name: llm, namespace: ${namespace}}
spec: {parentRefs: [{name: web}], rules: [${rules}]}
`;
  const to = "backendRefs: [{group: gatewayproxy.dev, kind: Backend, name: llm}]";
  const limit = (key: string) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limit, namespace: ${namespace}}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: llm}]
  traffic: {rateLimit: {local: [{requests: 1, unit: Hours, key: '${key}'}]}}
`;
  const llm = (port: number, path = "/v1") => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: llm, namespace: ${namespace}}
spec: {ai: {provider: {openai: {}}, host: 127.0.0.1, port: ${port}, path: "${path}", auth: {secretRef: {name: key}}}}
`;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "last-good-"));
    const authority = new TestAuthority("openssl", directory, "authority");
    first = authority.issue("first", "DNS:a.test");
    second = authority.issue("second", "DNS:a.test");
    backend = createServer((request, response) => {
      authorizations.push(request.headers.authorization);
      response.end("{}");
    });
    await new Promise<void>((resolve) => backend.listen(0, "127.0.0.1", resolve));
    // A listening TCP server has such an address.
    const { port } = backend.address() as AddressInfo;
    [http, https] = [await freePort(), await freePort()];
    await cluster.apply(`
apiVersion: v1
kind: Namespace
metadata: {name: ${namespace}}
---
apiVersion: ${gatewayApi}
kind: GatewayClass
metadata: {name: last-good}
spec: {controllerName: gatewayproxy.dev/controller}
---
apiVersion: ${gatewayApi}
kind: Gateway
metadata: {name: web, namespace: ${namespace}}
spec:
  gatewayClassName: last-good
  listeners:
    - {name: http, port: ${http}, protocol: HTTP}
    - {name: https, port: ${https}, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
---${[certificate(first.cert, first.key), apiKey("sk-1"), llm(port), route(`{${to}}`)].join("---")}`);
    setup = {
      ...{ kubeconfig: cluster.kubeconfig, namespace },
      args: ["--proxy-allow-backend-address", `127.0.0.1:${port}`],
    };
    controller = await startController(setup);
    proxy = await startGatewayProcess(cluster.kubeconfig, `${namespace}/web`, [
      "--allow-backend-address",
      `127.0.0.1:${port}`,
    ]);
    await eventually(
      () => getStatus(http, "a.test"),
      (status) => status === 200,
    );
  });

  afterAll(async () => {
    await controller?.stop();
    await proxy?.stop();
    backend.close();
    rmSync(directory, { recursive: true });
    await cluster.kubectl(["delete", "namespace", namespace, "--wait=false"]);
    await cluster.deleteClass("last-good");
  });

  /** The common name of the certificate at the HTTPS port. */
  const commonName = () =>
    new Promise<unknown>((resolve, reject) => {
      const socket = connect({ host: "127.0.0.1", port: https, servername: "a.test", rejectUnauthorized: false });
      socket.once("secureConnect", () => {
        resolve(socket.getPeerCertificate().subject.CN);
        socket.destroy();
      });
      socket.once("error", reject);
    });

  async function listenerCondition(type: string, reason: string) {
    const { status } = await cluster.becomes("gateway/web", namespace, {
      status: {
        listeners: [
          { name: "http" },
          { name: "https", conditions: expect.arrayContaining([expect.objectContaining({ type, reason })]) as unknown },
        ],
      },
    });
    const { listeners } = status as { listeners: { conditions: { type: string; message: string }[] }[] };
    return listeners[1]?.conditions.find((condition) => condition.type === type)?.message;
  }

  test("a certificate stays in use while its Secret is malformed, and is removed with it", async () => {
    await cluster.apply(certificate(first.cert, first.key));
    // The controller must have read it as well as the proxy.
    await listenerCondition("ResolvedRefs", "ResolvedRefs");
    await eventually(commonName, (name) => name === "first");
    await cluster.apply(certificate(second.cert, first.key));
    expect(await listenerCondition("ResolvedRefs", "InvalidCertificateRef")).toMatch(
      /its previous certificate, valid until .*, stays in force where it is known/,
    );
    expect(await commonName()).toBe("first");
    await cluster.apply(certificate(second.cert, second.key));
    await eventually(commonName, (name) => name === "second");
    await listenerCondition("ResolvedRefs", "ResolvedRefs");

    await cluster.apply(certificate("half", second.key));
    await listenerCondition("ResolvedRefs", "InvalidCertificateRef");
    expect(await commonName()).toBe("second");
    await cluster.kubectl(["delete", "secret", "cert", "-n", namespace]);
    await expect.poll(() => commonName().catch((error: unknown) => String(error))).toContain("ECONNREFUSED");
    await cluster.apply(certificate("half", second.key));
    expect(await listenerCondition("Programmed", "Invalid")).toContain("no valid certificate");
    await expect(commonName()).rejects.toThrow("ECONNREFUSED");
  });

  test("a replica that becomes the leader has the last valid version from before", async () => {
    await cluster.apply(certificate(first.cert, first.key));
    await listenerCondition("ResolvedRefs", "ResolvedRefs");
    const standby = await startController({ ...setup, identity: "two" });
    try {
      await expect.poll(() => standby.log.some(({ msg }) => msg === "ready")).toBe(true);
      await cluster.apply(certificate(second.cert, first.key));
      await listenerCondition("ResolvedRefs", "InvalidCertificateRef");
      await controller?.stop();
      await expect.poll(() => standby.log.some(({ msg }) => msg === "leading")).toBe(true);
      await cluster.apply(certificate("half", first.key));
      await expect
        .poll(() => listenerCondition("ResolvedRefs", "InvalidCertificateRef"))
        .toMatch(/not a PEM certificate; its previous certificate/);
    } finally {
      await standby.stop();
    }
    controller = await startController(setup);
  });

  test("a provider's key stays in use while its Secret is empty", async () => {
    await cluster.apply(apiKey(""));
    await cluster.becomes("backend/llm", namespace, {
      status: { conditions: [{ type: "Accepted", reason: "InvalidSecretRef" }] },
    });
    authorizations.length = 0;
    expect(await getStatus(http, "a.test")).toBe(200);
    expect(authorizations).toEqual(["Bearer sk-1"]);
  });

  test("a route, a limit and a backend stay in use in their last valid versions", async () => {
    await cluster.apply(route(`{name: before, ${to}}`));
    await cluster.apply(limit("request.path"));
    await expect
      .poll(async () => [await getStatus(http, "a.test", "/a"), await getStatus(http, "a.test", "/a")])
      .toEqual([429, 429]);
    await cluster.apply(limit("request.nonsense("));
    await cluster.becomes("proxypolicy/limit", namespace, {
      status: {
        ancestors: [
          { conditions: expect.arrayContaining([expect.objectContaining({ reason: "Invalid" })]) as unknown },
        ],
      },
    });
    await cluster.apply(route(`{${to}, matches: [{path: {type: RegularExpression, value: "(?<!a)b"}}]}`));
    await cluster.becomes("httproute/llm", namespace, {
      status: { parents: [{ conditions: [{ type: "Accepted", reason: "UnsupportedValue" }] }] },
    });
    expect(await getStatus(http, "a.test", "/a")).toBe(429);
    expect([await getStatus(http, "a.test", "/b"), await getStatus(http, "a.test", "/b")]).toEqual([200, 429]);
  });
});
