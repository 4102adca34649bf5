import { expect, test } from "vitest";
import { parseManifests } from "../../api/parse-manifests.ts";
import { translate } from "../translate.ts";

const gateway = (name: string, namespace = "default") => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ${name}, namespace: ${namespace}}
spec: {gatewayClassName: gateway-proxy, listeners: [{name: http, port: 80, protocol: HTTP}]}
`;
const route = (name: string, parent: string, backend: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ${name}}
spec: {parentRefs: [{name: ${parent}}], rules: [{backendRefs: [{group: gatewayproxy.dev, kind: Backend, name: ${backend}}]}]}
`;
const backend = (name: string, namespace = "default") => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: ${name}, namespace: ${namespace}}
spec: {static: {host: 127.0.0.1, port: 80}}
`;
const policy = (kind: string, name: string) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limits}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: ${kind}, name: ${name}}]
  traffic: {rateLimit: {local: [{requests: 1, unit: Minutes}]}}
`;

function messagesOf(...manifests: readonly string[]): string {
  const { resources, problems } = parseManifests([{ path: "a.yaml", text: manifests.join("---\n") }]);
  expect(problems).toEqual([]);
  const translation = translate(resources);
  return JSON.stringify([translation.problems, translation.statuses]);
}

const sound = [gateway("web"), backend("llm")];

test.each([
  ["a policy's route", [...sound, route("chat", "web", "llm"), policy("HTTPRoute", "chta")], "default/chat"],
  ["a policy's Gateway", [...sound, route("chat", "web", "llm"), policy("Gateway", "wbe")], "default/web"],
  ["a route's Gateway", [...sound, route("chat", "webb", "llm")], "default/web"],
  ["a route's backend", [...sound, route("chat", "web", "lm")], "default/llm"],
])("a missing %s is reported with the name that was probably meant", (_, manifests, meant) => {
  expect(messagesOf(...manifests)).toContain(`does not exist (did you mean ${meant}?)`);
});

test("names of other namespaces are not suggested", () => {
  const elsewhere = [gateway("web", "team-b"), backend("llm", "team-b")];
  const text = messagesOf(...elsewhere, gateway("own"), route("chat", "own", "lm"), policy("Gateway", "wbe"));
  expect(text).toContain("Backend default/lm does not exist");
  expect(text).not.toContain("did you mean");
});
