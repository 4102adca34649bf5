/** The NetworkPolicies of proxies, by the settings of the operator. */
import { expect, onTestFinished, test } from "vitest";
import { fieldsOf } from "../../proxy/src/kube/object.ts";
import { collectionPaths } from "../../proxy/src/source/kubernetes/watched-kinds.ts";
import { startController } from "../kube/support/controller-process.ts";
import { gatewayApi } from "../support/api-versions.ts";
import { startObjectApiServer } from "../support/object-api-server.ts";

const monitoring = { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } };
const prometheus = { matchLabels: { app: "prometheus" } };

test("metrics of proxies are open to the clients that the operator names", async () => {
  const api = await startObjectApiServer();
  const metadata = { namespace: "infra", name: "web" };
  const controllerName = "gatewayproxy.dev/controller";
  const listeners = [{ name: "http", port: 80, protocol: "HTTP" }];
  api.put(collectionPaths("GatewayClass")[0], {
    ...{ apiVersion: gatewayApi, kind: "GatewayClass", metadata: { name: "gateway-proxy" } },
    spec: { controllerName },
  });
  api.put(collectionPaths("Gateway")[0], {
    ...{ apiVersion: gatewayApi, kind: "Gateway", metadata },
    spec: { gatewayClassName: "gateway-proxy", listeners },
  });
  const peers = [{ namespaceSelector: monitoring }, { podSelector: prometheus }, { ipBlock: { cidr: "192.0.2.0/24" } }];
  const controller = await startController({
    ...{ kubeconfig: api.kubeconfig, namespace: "system" },
    args: ["--proxy-network-policy", "on", "--proxy-metrics-from", JSON.stringify(peers)],
  });
  onTestFinished(() => controller.stop("SIGKILL"));
  const ingress = (): unknown => {
    const policy = api.get("/apis/networking.k8s.io/v1/networkpolicies", "infra", "web-gateway-proxy");
    return fieldsOf(policy?.["spec"])["ingress"];
  };
  const tcp = (port: number) => ({ port, protocol: "TCP" });
  const ofSystem = { matchLabels: { "kubernetes.io/metadata.name": "system" } };
  await expect
    .poll(ingress, { timeout: 20_000 })
    .toEqual([
      { ports: [tcp(80), tcp(15_021)] },
      { ports: [tcp(15_020)], from: [peers[0], { podSelector: prometheus, namespaceSelector: ofSystem }, peers[2]] },
    ]);
});
