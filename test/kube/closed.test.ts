/**
 * Targets that must deny every request: of a policy that cannot be read at a start, and of a reference whose grant was
 * deleted.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../support/free-port.ts";
import { describeCluster, eventually } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";
import { type GatewayProcess, getStatus, startGatewayProcess } from "./support/gateway-process.ts";
import { gatewayApi } from "../support/api-versions.ts";

const namespace = "closed";
const other = "closed-other";
/** A permission without a grant must be removed after this time. */
const removalMs = 2_000;

describeCluster("a target that must be closed", (cluster) => {
  let controller: ControllerProcess | undefined;
  let proxy: GatewayProcess | undefined;
  let backend: Server;
  let allowed: readonly string[];
  let http: number;

  const limit = (key: string) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limit, namespace: ${namespace}}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: limited}]
  traffic: {rateLimit: {local: [{requests: 1000, unit: Hours, key: '${key}'}]}}
`;
  const unreadable = "request.nonsense(";
  const route = (name: string, to: string) => `
apiVersion: ${gatewayApi}
kind: HTTPRoute
metadata: {name: ${name}, namespace: ${namespace}}
spec:
  parentRefs: [{name: web}]
  hostnames: [${name}.test]
  rules: [{backendRefs: [{group: gatewayproxy.dev, kind: Backend, ${to}}]}]
`;
  const backendIn = (where: string, port: number) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: echo, namespace: ${where}}
spec: {static: {host: 127.0.0.1, port: ${port}}}
`;
  const grant = `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: grant, namespace: ${other}}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: ${namespace}}]
  to: [{group: gatewayproxy.dev, kind: Backend}]
`;

  const startProxy = (...more: readonly string[]) =>
    startGatewayProcess(cluster.kubeconfig, `${namespace}/web`, [...allowed, ...more]);
  const statusOf = (name: string) => getStatus(http, `${name}.test`).catch(() => 0);
  const becomesStatus = (name: string, expected: number, timeoutMs?: number) =>
    eventually(
      () => statusOf(name),
      (status) => status === expected,
      timeoutMs,
    );

  beforeAll(async () => {
    backend = createServer((_, response) => response.end("{}"));
    await new Promise<void>((resolve) => backend.listen(0, "127.0.0.1", resolve));
    // A listening TCP server has such an address.
    const { port } = backend.address() as AddressInfo;
    allowed = ["--allow-backend-address", `127.0.0.1:${port}`];
    http = await freePort();
    const namespaceOf = (name: string) => `{apiVersion: v1, kind: Namespace, metadata: {name: ${name}}}\n`;
    await cluster.apply(
      [
        namespaceOf(namespace),
        namespaceOf(other),
        `
apiVersion: ${gatewayApi}
kind: GatewayClass
metadata: {name: closed}
spec: {controllerName: gatewayproxy.dev/controller}
`,
        `
apiVersion: ${gatewayApi}
kind: Gateway
metadata: {name: web, namespace: ${namespace}}
spec: {gatewayClassName: closed, listeners: [{name: http, port: ${http}, protocol: HTTP}]}
`,
        ...[backendIn(namespace, port), backendIn(other, port), grant],
        ...[route("open", "name: echo"), route("limited", "name: echo")],
        route("foreign", `name: echo, namespace: ${other}`),
        limit(unreadable),
      ].join("---\n"),
    );
    controller = await startController({
      ...{ kubeconfig: cluster.kubeconfig, namespace },
      args: ["--proxy-allow-backend-address", `127.0.0.1:${port}`],
    });
    proxy = await startProxy();
    await becomesStatus("open", 200);
  });

  afterAll(async () => {
    await controller?.stop();
    await proxy?.stop();
    backend.close();
    await cluster.kubectl(["delete", "namespace", namespace, other, "--wait=false"]);
    await cluster.deleteClass("closed");
  });

  test("is one whose policy cannot be read at a cold start, until it can be read", async () => {
    expect(await statusOf("limited")).toBe(503);
    const { status } = await cluster.becomes("proxypolicy/limit", namespace, {
      status: {
        ancestors: [
          {
            conditions: expect.arrayContaining([
              expect.objectContaining({ type: "Attached", status: "False" }),
            ]) as unknown,
          },
        ],
      },
    });
    expect(JSON.stringify(status)).toContain("respond with 503 for its targets");
    await cluster.apply(limit("request.path"));
    await becomesStatus("limited", 200);
    // From then on its last valid version is in use.
    await cluster.apply(limit(unreadable));
    await cluster.becomes("proxypolicy/limit", namespace, {
      status: {
        ancestors: [
          { conditions: expect.arrayContaining([expect.objectContaining({ reason: "Invalid" })]) as unknown },
        ],
      },
    });
    expect(await statusOf("limited")).toBe(200);
  });

  test("is open without its limits if the setting says so", async () => {
    await cluster.apply(limit(unreadable));
    await proxy?.stop();
    proxy = await startProxy("--refused-policies", "Open");
    await becomesStatus("open", 200);
    expect(await statusOf("limited")).toBe(200);
  });

  test("is one in another namespace, within two seconds after the deletion of its grant", async () => {
    await becomesStatus("foreign", 200);
    await cluster.kubectl(["-n", other, "delete", "referencegrant/grant"]);
    await becomesStatus("foreign", 500, removalMs);
    expect(await statusOf("open")).toBe(200);
    await cluster.apply(grant);
    await becomesStatus("foreign", 200);
  });
});
