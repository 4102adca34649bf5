/** GRPCRoutes on a real API server: the controller reads them by its role, and writes their status. */
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { describeCluster, eventually } from "./support/cluster.ts";
import { startController } from "./support/controller-process.ts";

const gatewayClass = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: grpc}
spec: {controllerName: gatewayproxy.dev/controller}
`;

const gateway = (namespace: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: ${namespace}}
spec: {gatewayClassName: grpc, listeners: [{name: http, port: 80, protocol: HTTP}]}
`;

const route = (kind: string, namespace: string, name: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: ${kind}
metadata: {name: ${name}, namespace: ${namespace}}
spec: {parentRefs: [{name: web}], hostnames: [calls.test]}
`;

interface RouteConditions {
  readonly parents?: readonly { readonly conditions: readonly { readonly type: string; readonly reason: string }[] }[];
}

describeCluster("GRPCRoutes", (cluster) => {
  beforeAll(() => cluster.apply(gatewayClass));
  afterAll(() => cluster.deleteClass("grpc"));

  test("get a status, and exclude HTTPRoutes from their hosts", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gateway(namespace));
    const controller = await startController({ kubeconfig: cluster.kubeconfig, namespace });
    onTestFinished(() => controller.stop("SIGKILL"));
    const acceptedOf = async (object: string, expected: string) => {
      const found = await eventually(
        () => cluster.get(object, namespace),
        ({ status }) => JSON.stringify(status ?? "").includes(`"reason":"${expected}"`),
      );
      const { parents } = found["status"] as RouteConditions;
      return parents?.[0]?.conditions.find(({ type }) => type === "Accepted");
    };
    // Of equally old routes, the first by name is accepted.
    await cluster.apply(route("GRPCRoute", namespace, "a"));
    expect(await acceptedOf("grpcroute/a", "Accepted")).toMatchObject({ status: "True" });
    await cluster.apply(route("HTTPRoute", namespace, "b"));
    expect(await acceptedOf("httproute/b", "RouteKindConflict")).toMatchObject({ status: "False" });
    await cluster.kubectl(["delete", "grpcroute", "a", "-n", namespace]);
    expect(await acceptedOf("httproute/b", "Accepted")).toMatchObject({ status: "True" });
  });
});
