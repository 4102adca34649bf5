import { describe, expect, test } from "vitest";
import { backendTlsPolicySchema } from "./backend-tls-policy.ts";

const service = { group: "", kind: "Service", name: "api" };
const ca = { group: "", kind: "ConfigMap", name: "ca" };

function faultsOf(spec: object): readonly string[] {
  const manifest = {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "BackendTLSPolicy",
    metadata: { name: "policy" },
    spec: { targetRefs: [service], validation: { hostname: "api.example.com", caCertificateRefs: [ca] }, ...spec },
  };
  const parsed = backendTlsPolicySchema.safeParse(manifest);
  return parsed.success ? [] : parsed.error.issues.map(({ path }) => path.join("."));
}

const validation = { hostname: "api.example.com", caCertificateRefs: [ca] };

describe("the parser accepts what the CRD accepts", () => {
  test.each([
    ["one target and one authority", {}],
    ["two ports of one Service", { targetRefs: ["a", "b"].map((sectionName) => ({ ...service, sectionName })) }],
    ["the system's authorities", { validation: { hostname: "a.example", wellKnownCACertificates: "System" } }],
    [
      "authorities with a domain-prefixed name",
      { validation: { hostname: "a.example", wellKnownCACertificates: "a.b/c" } },
    ],
    ["a URI", { validation: { ...validation, subjectAltNames: [{ type: "URI", uri: "spiffe://a/b" }] } }],
    ["options", { options: { "example.com/a": "b" } }],
  ])("%s", (_case, spec) => {
    expect(faultsOf(spec)).toEqual([]);
  });
});

describe("and rejects what the CRD rejects", () => {
  test.each([
    ["no target", { targetRefs: [] }, "spec.targetRefs"],
    ["a target twice", { targetRefs: [service, service] }, "spec.targetRefs.1"],
    [
      "a target with a port and without",
      { targetRefs: [service, { ...service, sectionName: "a" }] },
      "spec.targetRefs.1",
    ],
    ["no authority", { validation: { hostname: "a.example" } }, "spec.validation"],
    [
      "both kinds of authorities",
      { validation: { ...validation, wellKnownCACertificates: "System" } },
      "spec.validation",
    ],
    ["a wildcard to ask for", { validation: { ...validation, hostname: "*.example" } }, "spec.validation.hostname"],
    [
      "a name without its value",
      { validation: { ...validation, subjectAltNames: [{ type: "URI" }] } },
      "spec.validation.subjectAltNames.0.uri",
    ],
    [
      "a name with the other's value",
      { validation: { ...validation, subjectAltNames: [{ type: "Hostname", hostname: "a.b", uri: "a:b" }] } },
      "spec.validation.subjectAltNames.0.uri",
    ],
    ["an unknown field", { insecure: true }, "spec.insecure"],
  ])("%s", (_case, spec, path) => {
    expect(faultsOf(spec)).toEqual([path]);
  });
});
