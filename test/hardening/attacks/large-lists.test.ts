/** A page of a hundred large objects is read object by object, by a controller that stays responsive. */
import { expect, test } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { startObjectApiServer } from "../../support/object-api-server.ts";
import { programFile } from "../../support/program-file.ts";
import { startWatched } from "../support/watched-process.ts";
import { gatewayApi } from "../../support/api-versions.ts";

const maxHeldMs = 100;
const routes = `/apis/${gatewayApi}/httproutes`;
/** Of a page. With 50 addresses for each of its endpoints, an EndpointSlice has 0.7 MB; etcd accepts 1.5 MiB. */
const slices = 100;

function object(apiVersion: string, kind: string, name: string, fields: object, metadata = {}): KubeObject {
  return { apiVersion, kind, metadata: { name, namespace: "crowd", ...metadata }, ...fields };
}

/** Addresses to which no proxy connects, so that the status of a route shows whether the slice has been read. */
const addresses = Array.from({ length: 50 }, (_, at) => `127.0.0.${at}`);
const endpoints = Array.from({ length: 1_000 }, () => ({ addresses, conditions: { ready: true } }));

function slice(index: number): KubeObject {
  const fields = { addressType: "IPv4", endpoints, ports: [{ name: "", port: 80, protocol: "TCP" }] };
  const labels = { "kubernetes.io/service-name": `s${index}` };
  return object("discovery.k8s.io/v1", "EndpointSlice", `s${index}`, fields, { labels });
}

test("100 EndpointSlices of 0.7 MB are listed in turns of the event loop", async () => {
  const api = await startObjectApiServer();
  api.put(`/apis/${gatewayApi}/gatewayclasses`, {
    apiVersion: gatewayApi,
    kind: "GatewayClass",
    metadata: { name: "gateway-proxy" },
    spec: { controllerName: "gatewayproxy.dev/controller" },
  });
  const spec = { gatewayClassName: "gateway-proxy", listeners: [{ name: "http", port: 8080, protocol: "HTTP" }] };
  api.put(`/apis/${gatewayApi}/gateways`, object(gatewayApi, "Gateway", "web", { spec }));
  const controller = await startWatched({
    main: programFile("proxy", "controller"),
    args: ["--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one"],
    env: { KUBECONFIG: api.kubeconfig },
    threads: 1,
  });
  /** Resolves when the status of a route names `reason` for its reference. */
  const routed = async (mark: number, reason: string): Promise<void> => {
    const rules = [{ name: `mark${mark}`, backendRefs: [{ name: `s${slices - 1}`, port: 80 }] }];
    api.put(routes, object(gatewayApi, "HTTPRoute", "marker", { spec: { parentRefs: [{ name: "web" }], rules } }));
    const status = () => JSON.stringify(api.get(routes, "crowd", "marker")?.["status"] ?? "");
    await expect.poll(status, { timeout: 120_000 }).toContain(reason);
  };
  await routed(1, "BackendNotFound");
  await controller.longestHeldMs();
  const service = { spec: { ports: [{ port: 80, protocol: "TCP" }] } };
  api.restore(
    "/apis/discovery.k8s.io/v1/endpointslices",
    Array.from({ length: slices }, (_, at) => slice(at)),
  );
  api.put("/api/v1/services", object("v1", "Service", `s${slices - 1}`, service));
  await routed(2, "ForbiddenAddress");
  expect(controller.hasEnded(), controller.output()).toBe(false);
  expect(await controller.longestHeldMs()).toBeLessThan(maxHeldMs);
}, 300_000);
