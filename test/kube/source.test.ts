/**
 * The proxy as a process, on its own control plane, whose loss it must survive. Its endpoints are at 10.77.0.1, since
 * the API accepts no loopback address for an endpoint; the user must be able to add that address to `lo` (root).
 */
import { execFileSync } from "node:child_process";
import { createServer, get as httpGet } from "node:http";
import { get as httpsGet } from "node:https";
import type { AddressInfo } from "node:net";
import { connect } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { type ControlPlane, startControlPlane } from "../rig/control-plane.ts";
import { freePort } from "../support/free-port.ts";
import { type ProxyProcess, spawnClusterProxy } from "../support/proxy-process.ts";
import { describeCluster, eventually } from "./support/cluster.ts";
import { defineKinds } from "./support/global-setup.ts";

const endpoint = "10.77.0.1";
const isRoot = process.getuid?.() === 0;

describeCluster("a proxy with its own cluster", () => {
  // Listed at the end of the run like a missing program.
  describe("on a machine whose addresses may be added to", {
    skip: !isRoot,
    meta: { missingPrograms: isRoot ? [] : ["root"] },
  }, () => {
    test("serves a Gateway of a cluster through changes, rotations and the loss of the cluster", {
      timeout: 180_000,
    }, async () => {
      const plane = await startControlPlane();
      onTestFinished(() => plane.stop());
      await defineKinds(plane.kubeconfig);
      const [http, https] = [await freePort(), await freePort()];
      await createCertificate(plane, "first");
      await apply(plane, manifests(http, https, await openBackend()));

      const proxy = await spawnClusterProxy(plane.kubeconfig, "default/web", ["--workers", "1"]);
      await proxy.logged(({ msg }) => msg === "ready");
      expect(await statusOf(http)).toBe(200);
      expect(await commonNameAt(https)).toBe("first");

      await apply(plane, policy);
      await expectWithin(2_000, async () => (await statusOf(http)) === 429);

      await createCertificate(plane, "second");
      await expectWithin(5_000, async () => (await commonNameAt(https)) === "second");

      await plane.killApi();
      expect(await statusOf(https, "https")).toBe(429);
      await plane.startApi();
      await plane.kubectl(["delete", "proxypolicy", "limit"]);
      await expectWithin(20_000, async () => (await statusOf(http)) === 200);
      expect(errorsOf(proxy)).toEqual([]);
    });

    test("waits for a Gateway that does not exist, and is not ready until then", {
      timeout: 120_000,
    }, async () => {
      const plane = await startControlPlane();
      onTestFinished(() => plane.stop());
      const [http, https] = [await freePort(), await freePort()];
      const proxy = await spawnClusterProxy(plane.kubeconfig, "default/web", ["--workers", "1"]);
      // Its cluster does not have the CRDs.
      await proxy.logged(({ problem }) => String(problem).includes("the API server does not know the kind Gateway"));
      expect((await fetch(`${proxy.readiness}/healthz/ready`)).status).toBe(503);
      await defineKinds(plane.kubeconfig);
      await createCertificate(plane, "first");
      await apply(plane, manifests(http, https, await openBackend()));
      await proxy.logged(({ msg }) => msg === "ready");
      await expectWithin(15_000, async () => (await statusOf(http)) === 200);
    });
  });
});

const policy = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limit, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: web}]
  traffic: {rateLimit: {local: [{requests: 1, unit: Hours}]}}
`;

function manifests(http: number, https: number, backend: number): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec: {controllerName: gatewayproxy.dev/controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: default}
spec:
  gatewayClassName: gateway-proxy
  listeners:
  - {name: http, protocol: HTTP, port: ${http}}
  - {name: https, protocol: HTTPS, port: ${https}, tls: {certificateRefs: [{name: web}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app, namespace: default}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: app, port: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: app, namespace: default}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: app-1, namespace: default, labels: {kubernetes.io/service-name: app}}
addressType: IPv4
endpoints: [{addresses: ["${endpoint}"], conditions: {ready: true}}]
ports: [{port: ${backend}}]
`;
}

async function apply(plane: ControlPlane, text: string): Promise<void> {
  await plane.kubectl(["apply", "--server-side", "-f", "-"], text);
}

/** A Secret `web` whose certificate has `name` as its common name. */
async function createCertificate(plane: ControlPlane, name: string): Promise<void> {
  const { cert, key } = plane.authority.issue(name, "DNS:localhost");
  const data = Object.entries({ "tls.crt": cert, "tls.key": key });
  const encoded = data.map(([field, text]) => `${field}: ${Buffer.from(text).toString("base64")}`).join(", ");
  const metadata = "{name: web, namespace: default}";
  await apply(
    plane,
    `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: ${metadata}, data: {${encoded}}}`,
  );
}

/** A backend at `endpoint`; gives its port. */
async function openBackend(): Promise<number> {
  const addresses = execFileSync("ip", ["-o", "address", "show", "dev", "lo"], { encoding: "utf8" });
  if (!addresses.includes(`${endpoint}/32`)) execFileSync("ip", ["address", "add", `${endpoint}/32`, "dev", "lo"]);
  const server = createServer((_, response) => response.end("here"));
  await new Promise<void>((resolve) => server.listen(0, endpoint, resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port; // a listening TCP server has one
}

async function statusOf(port: number, scheme: "http" | "https" = "http"): Promise<number> {
  const get = scheme === "http" ? httpGet : httpsGet;
  return await new Promise((resolve, reject) => {
    // A new connection each time: the certificate of an open one may be older.
    const options = { host: "127.0.0.1", port, agent: false, rejectUnauthorized: false };
    get(options, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    }).once("error", reject);
  });
}

/** The common name of the certificate at the port. */
async function commonNameAt(port: number): Promise<string> {
  return await new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, servername: "localhost", rejectUnauthorized: false });
    socket.once("error", reject);
    socket.once("secureConnect", () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
  });
}

async function expectWithin(timeoutMs: number, holds: () => Promise<boolean>): Promise<void> {
  await eventually(holds, (isSo) => isSo, timeoutMs);
}

/** The lines that were logged as errors. */
function errorsOf({ log }: ProxyProcess): readonly unknown[] {
  return log.filter(({ level }) => level === "error");
}
