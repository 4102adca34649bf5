/**
 * Names of Roles are path segments of the API server, which may contain backslashes, question marks and number signs. A
 * path with such a name must not lead to another object.
 */
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { onTestFinished, expect, test } from "vitest";
import type { KubeObject } from "../../proxy/src/kube/object.ts";
import { startController } from "../kube/support/controller-process.ts";
import { gatewayClass, paths } from "../support/controlled-objects.ts";
import { startObjectApiServer } from "../support/object-api-server.ts";
import { gatewayApi } from "../support/api-versions.ts";

/** The controller has started and written what it has to within this time, also on a busy machine. */
const readyMs = 60_000;

const gateway = {
  ...{ apiVersion: gatewayApi, kind: "Gateway", metadata: { name: "web", namespace: "ann" } },
  spec: {
    gatewayClassName: "gateway-proxy",
    listeners: [
      { name: "http", port: 80, protocol: "HTTP" },
      { name: "https", port: 443, protocol: "HTTPS", tls: { certificateRefs: [{ name: "certificate" }] } },
    ],
  },
};

/** A Role of the tenant `bob` with the labels of the Gateway's objects. The Gateway does not need it. */
function forged(name: string): KubeObject {
  const labels = {
    "app.kubernetes.io/managed-by": "gatewayproxy.dev",
    "gatewayproxy.dev/gateway-namespace": "ann",
    "gateway.networking.k8s.io/gateway-name": "web",
  };
  const metadata = { name, namespace: "bob", labels };
  return { apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", metadata, rules: [] };
}

test("a Role whose name leads to the object of another namespace is deleted alone", async () => {
  const api = await startObjectApiServer();
  api.put(paths.classes, gatewayClass);
  api.put(paths.gateways, gateway);
  const controller = await startController({ kubeconfig: api.kubeconfig, namespace: "system" });
  onTestFinished(() => controller.stop("SIGKILL"));
  const own = "web-gateway-proxy";
  await waitFor(() => expect(api.get(paths.bindings, "ann", own)).toBeDefined(), { timeout: readyMs });
  const names = [`..\\..\\ann\\roles\\${own}`, "a?b", "a#b", "a b"];
  const before = api.written.length;
  for (const name of names) api.put(paths.roles, forged(name));
  const remaining = () => names.filter((name) => api.get(paths.roles, "bob", name) !== undefined);
  await waitFor(() => expect(remaining()).toEqual([]), { timeout: readyMs });
  const written = api.written.slice(before).filter((each) => each.startsWith(`${paths.roles} `));
  expect(written.toSorted()).toEqual(names.map((name) => `${paths.roles} bob/${name}`).toSorted());
  expect(api.get(paths.roles, "ann", own)).toBeDefined();
}, 120_000);
