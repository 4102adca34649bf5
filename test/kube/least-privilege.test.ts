/**
 * The roles permit exactly what is needed: the API server's audit log has every request of a controller and of a proxy
 * under their own ServiceAccounts, and the test compares these with the permissions of the roles.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { type ControlPlane, startControlPlane } from "../rig/control-plane.ts";
import { freePort } from "../support/free-port.ts";
import { kubeconfigOf, type Permission, permissionsOf, type Rule, usedPermissions } from "./support/accounts.ts";
import { type Cluster, clusterOf, describeCluster, eventually } from "./support/cluster.ts";
import type { ControllerProcess } from "./support/controller-process.ts";
import { type GatewayProcess, getStatus, startGatewayProcess } from "./support/gateway-process.ts";
import { defineKinds } from "./support/global-setup.ts";
import { startOwnController, system } from "./support/own-plane.ts";

const rbacFolder = join(import.meta.dirname, "..", "..", "deploy", "rbac");

describeCluster("least privilege", () => {
  let plane: ControlPlane;
  let cluster: Cluster;
  let controller: ControllerProcess | undefined;
  let proxy: GatewayProcess | undefined;
  let port: number;
  let httpsPort: number;

  beforeAll(async () => {
    plane = await startControlPlane({ controllers: true, audits: true });
    cluster = clusterOf(plane.kubeconfig);
    await defineKinds(plane.kubeconfig);
    port = await freePort();
    httpsPort = await freePort();
    await cluster.apply(setting(port, httpsPort, await certificate(plane)));
    await plane.kubectl(["apply", "-f", rbacFolder]);
    controller = await startOwnController(plane, "--proxy-network-policy", "on");
    for (const part of ["rolebinding", "serviceaccount"]) {
      await eventually(
        () => cluster.get(`${part}/web-gateway-proxy`, "tenant"),
        () => true,
      );
    }
    proxy = await startGatewayProcess(await kubeconfigOf(plane, "tenant", "web-gateway-proxy"), "tenant/web");
    await eventually(
      () => getStatus(port, "any.test"),
      (status) => status === 500 || status === 503,
    );
    await useEverything(cluster);
  });

  afterAll(async () => {
    await controller?.stop();
    await proxy?.stop();
    await plane.stop();
  });

  test("the controller has exactly the permissions that it uses", () => {
    const { used, forbidden } = usedPermissions(plane, system, "gateway-proxy-controller");
    expect([...forbidden]).toEqual([]);
    const rules = rulesIn("controller.yaml", /^(?:Cluster)?Role$/);
    const permitted = permissionsOf(rules);
    expect(sorted(difference(used, permitted))).toEqual([]);
    expect(sorted(difference(permitted, used))).toEqual(withinApply);
  });

  test("a proxy has exactly the permissions that it uses", async () => {
    const { used, forbidden } = usedPermissions(plane, "tenant", "web-gateway-proxy");
    expect([...forbidden]).toEqual([]);
    const own = JSON.parse(await plane.kubectl(["get", "role/web-gateway-proxy", "-n", "tenant", "-o", "json"])) as {
      rules: readonly Rule[];
    };
    const permitted = permissionsOf([...rulesIn("proxy.yaml", /^ClusterRole$/), ...own.rules]);
    expect(sorted(used)).toEqual(sorted(permitted));
    expect(own.rules).toEqual([
      { apiGroups: [""], resources: ["secrets"], resourceNames: ["cert"], verbs: ["list", "watch"] },
    ]);
  });

  test("a proxy may read only the Secrets that its Gateway refers to", async () => {
    const asProxy = ["--as=system:serviceaccount:tenant:web-gateway-proxy"];
    const may = async (...what: string[]) =>
      (await plane.kubectl(["auth", "can-i", ...what, ...asProxy]).catch((error: unknown) => String(error))).includes(
        "yes",
      );
    expect(await may("watch", "secrets/cert", "-n", "tenant")).toBe(true);
    expect(await may("watch", "secrets/other", "-n", "tenant")).toBe(false);
    expect(await may("list", "secrets", "-n", "tenant")).toBe(false);
    expect(await may("watch", "secrets/cert", "-n", "default")).toBe(false);
    expect(await may("patch", "gateways/status", "-n", "tenant")).toBe(false);
  });

  test("a proxy serves the previous certificate until its role permits it to read the new one", async () => {
    const { cert, key } = plane.authority.issue("instead", "DNS:any.test");
    await cluster.apply(tlsSecret("instead", cert, key));
    const named = (name: string) => ({
      op: "replace",
      path: "/spec/listeners/1/tls/certificateRefs/0/name",
      value: name,
    });
    const seen: unknown[] = [await commonNameAt(httpsPort)];
    const switched = cluster.kubectl([
      ...["patch", "gateway/web", "-n", "tenant", "--type=json", "-p", JSON.stringify([named("instead")])],
    ]);
    await eventually(
      async () => seen.push(await commonNameAt(httpsPort).catch(String)),
      () => seen.at(-1) === "instead",
    );
    await switched;
    expect(new Set(seen)).toEqual(new Set(["tenant", "instead"]));
  });

  test("a controller that may no longer read Gateways does not change their proxies", async () => {
    const roleOf = async () => (await cluster.get("clusterrole/gateway-proxy-controller"))["rules"] as readonly Rule[];
    const setRules = async (rules: readonly Rule[]) => {
      const patch = JSON.stringify({ rules });
      await plane.kubectl(["patch", "clusterrole/gateway-proxy-controller", "--type=merge", "-p", patch]);
    };
    const account = `system:serviceaccount:${system}:gateway-proxy-controller`;
    const canList = () =>
      plane.kubectl(["auth", "can-i", "list", "gateways.gateway.networking.k8s.io", "-A", "--as", account]).then(
        () => true,
        () => false,
      );
    const rules = await roleOf();
    onTestFinished(() => setRules(rules));
    await controller?.stop();
    await setRules(
      rules.map((rule) => ({ ...rule, resources: rule.resources.filter((resource) => resource !== "gateways") })),
    );
    // The API server learns of a change of roles a moment later.
    await expect.poll(canList).toBe(false);
    controller = await startOwnController(plane, "--proxy-network-policy", "on");
    const isLogged = (text: string) =>
      controller?.log.some(({ msg, problem }) => `${String(msg)} ${String(problem)}`.includes(text)) === true;
    await expect.poll(() => isLogged("cannot read Gateway, which needs the verbs list and watch")).toBe(true);
    await expect.poll(() => isLogged("leading")).toBe(true);
    await setRules(rules);
    await cluster.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: late, namespace: tenant}
spec: {parentRefs: [{name: web}]}
`);
    await eventually(
      () => cluster.get("httproute/late", "tenant"),
      ({ status }) => JSON.stringify(status ?? "").includes('"reason":"Accepted"'),
    );
    expect(controller.log.filter(({ msg }) => msg === "deleted" || msg === "created")).toEqual([]);
  });
});

/** The common name of the certificate at a port of this machine. */
function commonNameAt(port: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, servername: "any.test", rejectUnauthorized: false });
    socket.once("secureConnect", () => {
      resolve(socket.getPeerCertificate().subject.CN);
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

/** No separate request: server-side apply of an object that does not exist needs it within the patch. */
const withinApply: readonly Permission[] = [
  "create /serviceaccounts",
  "create /services",
  "create apps/deployments",
  "create apps/statefulsets",
  "create autoscaling/horizontalpodautoscalers",
  "create networking.k8s.io/networkpolicies",
  "create policy/poddisruptionbudgets",
  "create rbac.authorization.k8s.io/clusterrolebindings",
  "create rbac.authorization.k8s.io/rolebindings",
  "create rbac.authorization.k8s.io/roles",
];

function rulesIn(file: string, kind: RegExp): readonly Rule[] {
  const documents = parseAllDocuments(readFileSync(join(rbacFolder, file), "utf8"));
  const objects = documents.map((document) => document.toJS() as { kind: string; rules?: readonly Rule[] });
  return objects.flatMap((object) => (kind.test(object.kind) ? (object.rules ?? []) : []));
}

/** Makes the controller do everything that it ever does. */
async function useEverything(cluster: Cluster): Promise<void> {
  // Deletes objects of every kind: the Gateway's class becomes one of another controller.
  await eventually(
    () => cluster.get("horizontalpodautoscaler/scaled-gateway-proxy", "tenant"),
    () => true,
  );
  await eventually(
    () => cluster.get("proxypolicy/limits", "tenant"),
    ({ status }) => JSON.stringify(status ?? "").includes("Attached"),
  );
  await cluster.becomes("statefulset/durable-gateway-proxy", "tenant", {});
  const foreign = ["--type=merge", "-p", '{"spec":{"gatewayClassName":"foreign"}}'];
  for (const name of ["scaled", "durable"]) {
    await cluster.kubectl(["patch", `gateway/${name}`, "-n", "tenant", ...foreign]);
  }
  await eventually(
    () => cluster.kubectl(["get", "all,sa,pdb,hpa,role,rolebinding,networkpolicy", "-n", "tenant", "-o", "name"]),
    (names) => !names.includes("scaled") && !names.includes("durable"),
  );
  // The Lease is renewed every two seconds.
  await new Promise((resolve) => setTimeout(resolve, 2_500));
}

async function certificate(plane: ControlPlane): Promise<{ readonly cert: string; readonly key: string }> {
  return await Promise.resolve(plane.authority.issue("tenant", "DNS:any.test"));
}

function tlsSecret(name: string, cert: string, key: string): string {
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  return `
apiVersion: v1
kind: Secret
metadata: {name: ${name}, namespace: tenant}
type: kubernetes.io/tls
data: {tls.crt: ${base64(cert)}, tls.key: ${base64(key)}}
`;
}

function setting(
  port: number,
  httpsPort: number,
  { cert, key }: { readonly cert: string; readonly key: string },
): string {
  const gateway = (name: string, infrastructure: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ${name}, namespace: tenant}
spec:
  gatewayClassName: gateway-proxy
  allowedListeners: {namespaces: {from: Same}}
  listeners:
  - {name: http, port: ${port}, protocol: HTTP}
  - {name: https, port: ${httpsPort}, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
${infrastructure}
---`;
  return `
apiVersion: v1
kind: Namespace
metadata: {name: ${system}}
---
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec: {controllerName: gatewayproxy.dev/controller}
---${tlsSecret("cert", cert, key)}---
apiVersion: v1
kind: ConfigMap
metadata: {name: shape, namespace: tenant}
data: {horizontalPodAutoscaler: "spec: {maxReplicas: 3}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: volumes, namespace: tenant}
data: {persistentVolumeClaim: "{}"}
---
${gateway("web", "")}
${gateway("scaled", "  infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: shape}}")}
${gateway("durable", "  infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: volumes}}")}
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more, namespace: tenant}
spec:
  parentRef: {name: web}
  listeners: [{name: more, port: 8444, protocol: HTTP}]
---
apiVersion: v1
kind: Service
metadata: {name: tls, namespace: tenant}
spec: {ports: [{port: 443}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: tls, namespace: tenant}
spec:
  targetRefs: [{group: "", kind: Service, name: tls}]
  validation: {wellKnownCACertificates: System, hostname: tls.test}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: all, namespace: tenant}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: tls, port: 443}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls, namespace: tenant}
spec: {parentRefs: [{name: web}], hostnames: [calls.test], rules: [{backendRefs: [{name: tls, port: 443}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: tls, namespace: tenant}
spec: {parentRefs: [{name: web}], hostnames: [tls.test], rules: [{backendRefs: [{name: tls, port: 443}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: tcp, namespace: tenant}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: tls, port: 443}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: udp, namespace: tenant}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: tls, port: 443}]}]}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: elsewhere, namespace: tenant}
spec: {static: {host: elsewhere.test, port: 443, tls: {}}}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limits, namespace: tenant}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: all}]
  traffic: {rateLimit: {local: [{requests: 100, unit: Minutes}]}}
`;
}

function difference(a: ReadonlySet<Permission>, b: ReadonlySet<Permission>): ReadonlySet<Permission> {
  return new Set([...a].filter((each) => !b.has(each)));
}

function sorted(permissions: ReadonlySet<Permission>): readonly Permission[] {
  return [...permissions].sort();
}
