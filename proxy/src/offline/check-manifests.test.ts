import { describe, expect, test } from "vitest";
import { checkManifests } from "./check-manifests.ts";

const gateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: default}
spec:
  gatewayClassName: gateway-proxy
  listeners: [{name: http, port: 80, protocol: HTTP}]
`;

const route = (parent: string, ref: string) => `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: default}
spec:
  parentRefs: [{name: ${parent}}]
  rules: [{backendRefs: [${ref}]}]
`;

const backend = (spec: string) => `apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: b, namespace: default}
spec: ${spec}
`;

const policy = (kind: string, name: string) => `apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limits, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: ${kind}, name: ${name}}]
  traffic: {rateLimit: {local: [{requests: 1, unit: Seconds}]}}
`;

const tlsPolicy = (ref: string) => `apiVersion: v1
kind: Service
metadata: {name: api, namespace: default}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: tls, namespace: default}
spec:
  targetRefs: [{group: "", kind: Service, name: api}]
  validation: {hostname: api.example, caCertificateRefs: [${ref}]}
`;

const backendRef = "{group: gatewayproxy.dev, kind: Backend, name: b}";
const authorities = '{group: "", kind: ConfigMap, name: authorities}';

function check(...texts: readonly string[]) {
  const files = texts.map((text, index) => ({ path: `${index}.yaml`, text }));
  const { problems, unseen } = checkManifests(files, { references: true });
  const messages = (list: typeof problems) => list.map(({ message }) => message);
  return { problems: messages(problems), unseen: messages(unseen) };
}

describe("checkManifests()", () => {
  test.each([
    ["a missing parent", [route("web", backendRef), backend("{static: {host: a.example, port: 80}}")]],
    ["a missing Service", [gateway, route("web", "{name: api, port: 80}")]],
    ["a Backend of another namespace", [gateway, route("web", backendRef.replace("}", ", namespace: other}"))]],
    [
      "a missing Secret of a Backend, and the rule that uses the Backend",
      [gateway, route("web", backendRef), backend("{ai: {provider: {openai: {}}, auth: {secretRef: {name: key}}}}")],
    ],
    ["a missing target of a policy", [policy("HTTPRoute", "chat")]],
    [
      "a missing Gateway, and the policy of its route",
      [route("web", "{name: api, port: 80}"), policy("HTTPRoute", "chat")],
    ],
    [
      "a missing certificate, and the policy of its Gateway",
      [
        gateway.replace("protocol: HTTP}", "protocol: HTTPS, tls: {certificateRefs: [{name: certificate}]}}"),
        policy("Gateway", "web"),
      ],
    ],
    ["a missing authority, and the policy without a valid one", [tlsPolicy(authorities)]],
  ])("reports %s as unseen", (_, texts) => {
    const { problems, unseen } = check(...texts);
    expect(problems).toEqual([]);
    expect(unseen).not.toEqual([]);
  });

  test("reports as a problem that a target is not served, if no object is missing", () => {
    const foreign = gateway.replace("protocol: HTTP}", "protocol: SCTP}");
    const { problems, unseen } = check(foreign, policy("Gateway", "web"));
    expect(problems).toContain("no listener of Gateway default/web is programmed");
    expect(unseen).toEqual([]);
  });

  test("does not take the text of a manifest for a missing object", () => {
    const validation = 'wellKnownCACertificates: System}\n  options: {"does not exist": "1"}';
    const { problems, unseen } = check(tlsPolicy("").replace("caCertificateRefs: []}", validation));
    expect(problems).toEqual(["option does not exist has no effect"]);
    expect(unseen).toEqual([]);
  });

  test("an invalid authority beside a missing one is a problem, and so is a policy without a valid authority", () => {
    const invalid = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: invalid, namespace: default}\ndata: {}\n";
    const refs = `${authorities}, {group: "", kind: ConfigMap, name: invalid}`;
    const { problems, unseen } = check(tlsPolicy(refs), invalid);
    expect(problems).toHaveLength(2);
    expect(unseen).toEqual(["ConfigMap default/authorities does not exist"]);
  });
});
