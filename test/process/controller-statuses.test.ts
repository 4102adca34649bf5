/** Statuses do not depend on how long the objects of Gateways take. */
import { expect, onTestFinished, test } from "vitest";
import { fieldsOf, type KubeObject, objectsOf } from "../../proxy/src/kube/object.ts";
import { collectionPaths } from "../../proxy/src/source/kubernetes/watched-kinds.ts";
import { startController } from "../kube/support/controller-process.ts";
import { startObjectApiServer } from "../support/object-api-server.ts";

const apiVersion = "gateway.networking.k8s.io/v1";
const namespaced = (name: string) => ({ namespace: "infra", name });

test("statuses are written while the API server does not respond to writes of Deployments", async () => {
  const api = await startObjectApiServer();
  api.hold("/apis/apps/v1/deployments");
  const objects: readonly KubeObject[] = [
    {
      ...{ apiVersion, kind: "GatewayClass", metadata: { name: "gateway-proxy" } },
      spec: { controllerName: "gatewayproxy.dev/controller" },
    },
    {
      ...{ apiVersion, kind: "Gateway", metadata: namespaced("web") },
      spec: { gatewayClassName: "gateway-proxy", listeners: [{ name: "http", port: 80, protocol: "HTTP" }] },
    },
    { apiVersion, kind: "HTTPRoute", metadata: namespaced("chat"), spec: { parentRefs: [{ name: "web" }] } },
  ];
  for (const object of objects) api.put(collectionPaths(object["kind"] as never)[0], object);
  const controller = await startController({ kubeconfig: api.kubeconfig, namespace: "infra" });
  onTestFinished(() => controller.stop("SIGKILL"));
  const conditionsOf = (status: unknown) =>
    objectsOf(fieldsOf(status)["conditions"]).map(({ type, status: value }) => `${String(type)} ${String(value)}`);
  const route = () => api.get(collectionPaths("HTTPRoute")[0], "infra", "chat")?.["status"];
  const gateway = () => api.get(collectionPaths("Gateway")[0], "infra", "web")?.["status"];
  await expect
    .poll(() => conditionsOf(objectsOf(fieldsOf(route())["parents"])[0]), { timeout: 20_000 })
    .toContain("Accepted True");
  expect(conditionsOf(gateway())).toEqual(expect.arrayContaining(["Accepted True", "Programmed False"]));
});

test("a status of thousands of levels, which another definition lets through, does not keep others from theirs", async () => {
  const api = await startObjectApiServer();
  const put = (kind: string, name: string, rest: object) =>
    api.put(collectionPaths(kind as never)[0], { apiVersion, kind, metadata: namespaced(name), ...rest });
  const controllerName = "gatewayproxy.dev/controller";
  api.put(collectionPaths("GatewayClass")[0], {
    ...{ apiVersion, kind: "GatewayClass", metadata: { name: "gateway-proxy" }, spec: { controllerName } },
  });
  const listeners = [{ name: "http", port: 80, protocol: "HTTP" }];
  put("Gateway", "web", { spec: { gatewayClassName: "gateway-proxy", listeners } });
  const levels = 5_000;
  const deep: unknown = JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);
  const spec = { parentRefs: [{ name: "web" }] };
  put("HTTPRoute", "deep", { spec, status: { parents: [{ controllerName, parentRef: deep, conditions: deep }] } });
  put("HTTPRoute", "chat", { spec });
  const controller = await startController({ kubeconfig: api.kubeconfig, namespace: "infra" });
  onTestFinished(() => controller.stop("SIGKILL"));
  const statusOf = (name: string) =>
    JSON.stringify(api.get(collectionPaths("HTTPRoute")[0], "infra", name)?.["status"]);
  await expect.poll(() => statusOf("chat"), { timeout: 20_000 }).toContain("Accepted");
  await expect.poll(() => statusOf("deep"), { timeout: 20_000 }).toContain("Accepted");
}, 60_000);

test("the reason for which a write is rejected is shortened", async () => {
  const api = await startObjectApiServer();
  const controllerName = "gatewayproxy.dev/controller";
  api.put(collectionPaths("GatewayClass")[0], {
    ...{ apiVersion, kind: "GatewayClass", metadata: { name: "gateway-proxy" }, spec: { controllerName } },
  });
  const listeners = [{ name: "http", port: 80, protocol: "HTTP" }];
  const spec = { gatewayClassName: "gateway-proxy", listeners };
  api.put(collectionPaths("Gateway")[0], { apiVersion, kind: "Gateway", metadata: namespaced("web"), spec });
  const failing = api.failWrites("/api/v1/serviceaccounts", "no".repeat(500_000));
  const controller = await startController({ kubeconfig: api.kubeconfig, namespace: "infra" });
  onTestFinished(() => controller.stop("SIGKILL"));
  const failures = () => controller.log.filter(({ msg }) => msg === "cannot reconcile an object of a Gateway");
  await expect.poll(() => failures().length, { timeout: 60_000 }).toBeGreaterThan(0);
  expect(failing.rejected).toBeGreaterThan(0);
  expect(Math.max(...failures().map((line) => JSON.stringify(line).length))).toBeLessThan(16_384);
}, 120_000);
