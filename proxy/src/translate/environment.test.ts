import { describe, expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import { clusterEnvironment, isRejectedClass, rejectedClassMessage } from "./environment.ts";
import { translate } from "./translate.ts";

function gateway(name: string, rest = ""): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ${name}, namespace: infra}
spec:
  gatewayClassName: gateway-proxy
  listeners: [{name: http, port: 80, protocol: HTTP}]
${rest}
---`;
}

const parameters = "  infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: shape}}";

function translated(text: string, environment = clusterEnvironment()) {
  return translate(parseManifests([{ path: "a.yaml", text }]).resources, { environment });
}

describe("Gateways in pods of their own", () => {
  test("share no port, so that the same listener on two of them is no conflict", () => {
    const { statuses } = translated(gateway("a") + gateway("b"));
    expect(statuses.gateways).toHaveLength(2);
    for (const { conditions } of statuses.gateways) {
      expect(conditions).toMatchObject([
        { type: "Accepted", status: "True" },
        { type: "Programmed", status: "True" },
      ]);
    }
  });

  test("listen at every address of the pod, for any requested address of the Service", () => {
    const { binds } = translated(gateway("a", "  addresses: [{value: 192.0.2.7}]"));
    expect(binds).toMatchObject([{ port: 80 }]);
    expect(binds[0]).not.toHaveProperty("address");
  });

  test("have the parameters that the provisioner validates", () => {
    const { statuses } = translated(gateway("a", parameters));
    expect(statuses.gateways[0]?.conditions[0]).toMatchObject({ type: "Accepted", status: "True" });
  });

  test("are rejected for invalid parameters", () => {
    const { statuses, binds } = translated(
      gateway("a", parameters),
      clusterEnvironment({ validateParameters: () => "no such ConfigMap" }),
    );
    expect(binds).toEqual([]);
    expect(statuses.gateways[0]?.conditions[0]).toMatchObject({
      status: "False",
      reason: "InvalidParameters",
      message: expect.stringContaining("no such ConfigMap") as string,
    });
  });

  test("of an invalid class are served by their proxies, and not accepted by the provisioner", () => {
    const rejectedClass = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec: {controllerName: gatewayproxy.dev/controller, description: 7}
---`;
    expect(translated(rejectedClass + gateway("a")).binds).toHaveLength(1);
    const { statuses } = translated(
      rejectedClass + gateway("a"),
      clusterEnvironment({
        validateParameters: (owner) => (isRejectedClass(owner) ? rejectedClassMessage : undefined),
      }),
    );
    expect(statuses.gateways[0]?.conditions[0]).toMatchObject({ status: "False", reason: "InvalidParameters" });
  });
});
