import { expect, test } from "vitest";
import { describeCluster } from "./support/cluster.ts";

describeCluster("the cluster of these tests", (cluster) => {
  test("serves the Gateway API and accepts objects in a namespace of the test", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: ${namespace}}
spec: {gatewayClassName: nobodys, listeners: [{name: http, protocol: HTTP, port: 80}]}
`);
    const gateway = await cluster.get("gateway/web", namespace);
    expect(gateway).toMatchObject({ status: { conditions: [{ type: "Accepted", status: "Unknown" }, {}] } });
  });
});
