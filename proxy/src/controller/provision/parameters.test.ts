import { describe, expect, test } from "vitest";
import { parseManifests } from "../../api/parse-manifests.ts";
import { parametersOf } from "./parameters.ts";

function read(owner: string, data = "{}") {
  const text = `
apiVersion: v1
kind: ConfigMap
metadata: {name: shape, namespace: infra}
data: ${data}
---
${owner}`;
  const { resources, problems } = parseManifests([{ path: "a.yaml", text }]);
  const parameterized = resources.Gateway[0] ?? resources.GatewayClass[0];
  if (parameterized === undefined) throw new Error(JSON.stringify(problems));
  return parametersOf(parameterized, resources.ConfigMap);
}

const gatewayNaming = (ref: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: infra}
spec:
  gatewayClassName: gateway-proxy
  infrastructure: {parametersRef: ${ref}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
`;

const classNaming = (ref: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec: {controllerName: gatewayproxy.dev/controller, parametersRef: ${ref}}
`;

const shape = '{group: "", kind: ConfigMap, name: shape}';

describe("parameters", () => {
  test("of a Gateway are those of the ConfigMap in its namespace", () => {
    expect(
      read(gatewayNaming(shape), '{deployment: "spec: {replicas: 3}", service: "spec: {type: NodePort}"}'),
    ).toEqual({
      kind: "parameters",
      parameters: { deployment: { spec: { replicas: 3 } }, service: { spec: { type: "NodePort" } } },
    });
  });

  test("of a class are those of the ConfigMap in the namespace that it names", () => {
    const named = '{group: "", kind: ConfigMap, name: shape, namespace: infra}';
    expect(read(classNaming(named), '{serviceAccount: "metadata: {annotations: {a: b}}"}')).toEqual({
      kind: "parameters",
      parameters: { serviceAccount: { metadata: { annotations: { a: "b" } } } },
    });
  });

  test("are none where a ConfigMap is empty", () => {
    expect(read(gatewayNaming(shape))).toEqual({ kind: "parameters", parameters: {} });
  });

  test.each([
    [
      "another kind",
      gatewayNaming("{group: example.com, kind: Shape, name: shape}"),
      "{}",
      'parametersRef has kind Shape (group "example.com"); accepted is ConfigMap (group "")',
    ],
    [
      "a class that does not say in which namespace they are",
      classNaming(shape),
      "{}",
      "parametersRef of a GatewayClass names ConfigMap shape without a namespace; the namespace is required",
    ],
    [
      "a ConfigMap that is not there",
      gatewayNaming('{group: "", kind: ConfigMap, name: nowhere}'),
      "{}",
      "ConfigMap infra/nowhere does not exist",
    ],
    [
      "a key that is not known",
      gatewayNaming(shape),
      '{pod: "{}"}',
      'ConfigMap infra/shape: key "pod" is unknown; accepted are ' +
        "deployment, statefulSet, persistentVolumeClaim, service, serviceAccount, podDisruptionBudget, horizontalPodAutoscaler",
    ],
    [
      "text that is no map",
      gatewayNaming(shape),
      '{service: "NodePort"}',
      "ConfigMap infra/shape: service must be a map of fields",
    ],
    [
      "a field that is ours",
      gatewayNaming(shape),
      '{service: "kind: Pod"}',
      "ConfigMap infra/shape: service.kind cannot be set",
    ],
  ])("are rejected for %s", (_, owner, data, message) => {
    expect(read(owner, data)).toEqual({ kind: "invalid", message });
  });

  test("are rejected for text that is not valid YAML, with its position", () => {
    expect(read(gatewayNaming(shape), '{service: "spec: {"}')).toMatchObject({
      kind: "invalid",
      message: expect.stringMatching(/^ConfigMap infra\/shape: service is not valid YAML: .+ at line 1/) as string,
    });
  });
});
