import { describe, expect, test } from "vitest";
import { parseResource } from "./parse-resource.ts";
import { secretValue } from "./secret.ts";
import { errorsOf } from "./testing/errors.ts";

function object(apiVersion: string, kind: string, body: object, metadata: object = {}) {
  return { apiVersion, kind, metadata: { name: "x", ...metadata }, ...body };
}

const backend = (spec: object) => object("gatewayproxy.dev/v1alpha1", "Backend", { spec });

describe("a Backend", () => {
  test.each([
    ["a static address", { static: { host: "10.0.0.1", port: 80 } }],
    ["an IPv6 address", { static: { host: "fd00::1", port: 80, tls: { hostname: "a.com" } } }],
    ["a provider", { ai: { provider: { openai: {} } } }],
    [
      "all of a provider",
      {
        ai: {
          provider: { anthropic: { model: "m" } },
          host: "a.com",
          port: 1,
          path: "/v1",
          auth: { secretRef: { name: "s" } },
          tls: {},
        },
      },
    ],
    [
      "models",
      {
        ai: {
          provider: { azure: { apiVersion: "preview" } },
          host: "a.com",
          models: [{ name: "a", as: "b" }, { name: "b" }],
        },
      },
    ],
    ["the client's credentials", { ai: { provider: { openai: {} }, auth: { passthrough: {} } } }],
  ])("may have %s", (_, spec) => {
    expect(errorsOf(backend(spec))).toEqual([]);
  });

  test.each([
    ["nothing", {}, "spec: found neither, accepted is exactly one of static and ai"],
    [
      "two forms",
      { static: { host: "a", port: 1 }, ai: { provider: { openai: {} } } },
      "spec: found both, accepted is exactly one of static and ai",
    ],
    [
      "no provider",
      { ai: { provider: {} } },
      "spec.ai.provider: found none, accepted is exactly one of openai, anthropic, azure, gemini, bedrock and openaiCompatible",
    ],
    [
      "an unknown provider",
      { ai: { provider: { opnai: {} } } },
      'spec.ai.provider.opnai: unknown field "opnai", accepted are openai, anthropic, azure, gemini, bedrock, openaiCompatible; did you mean "openai"?',
    ],
    [
      "two providers",
      { ai: { provider: { openai: {}, gemini: {} } } },
      "spec.ai.provider: found openai and gemini, accepted is exactly one of openai, anthropic, azure, gemini, bedrock and openaiCompatible",
    ],
    [
      "a provider without a public host",
      { ai: { provider: { azure: {} } } },
      "spec.ai.host: found none, accepted is a host for azure and openaiCompatible, which have no public one",
    ],
    [
      "neither a provider nor providers",
      { ai: { host: "a.com" } },
      "spec.ai: found neither, accepted is exactly one of provider and providers",
    ],
    [
      "a provider twice",
      { ai: { providers: [{ backendRef: { name: "a" } }, { backendRef: { name: "a" } }] } },
      "spec.ai.providers[1].backendRef.name: found Backend a a second time, accepted are 1 to 16 providers, each Backend once",
    ],
    [
      "a provider in another namespace",
      { ai: { providers: [{ backendRef: { name: "a", namespace: "b" } }] } },
      'spec.ai.providers[0].backendRef.namespace: unknown field "namespace", accepted is name',
    ],
    [
      "an address beside providers",
      { ai: { providers: [{ backendRef: { name: "a" } }], host: "a.com" } },
      "spec.ai.host: found host, accepted beside providers is failover; other fields belong to the Backends of the providers",
    ],
    [
      "models beside providers",
      { ai: { providers: [{ backendRef: { name: "a" } }], models: [{ name: "m" }] } },
      "spec.ai.models: found models, accepted beside providers is failover; other fields belong to the Backends of the providers",
    ],
    [
      "failover of one provider",
      { ai: { provider: { openai: {} }, failover: {} } },
      "spec.ai.failover: found no providers, accepted is failover beside providers",
    ],
    [
      "a timeout that is none",
      { ai: { providers: [{ backendRef: { name: "a" } }], failover: { firstByteTimeout: "0s" } } },
      'spec.ai.failover.firstByteTimeout: found "0s", accepted is a duration from 1ms to 1h, such as 10s',
    ],
    [
      "a region that is none",
      { ai: { provider: { bedrock: { region: "eu-west-1.evil.example" } } } },
      'spec.ai.provider.bedrock.region: found "eu-west-1.evil.example", accepted is an AWS region such as eu-west-1',
    ],
    [
      "models beside the model of the provider",
      { ai: { provider: { openai: { model: "a" } }, models: [{ name: "b" }] } },
      "spec.ai.models: found provider.openai.model too, accepted is either models, or the model of the provider, which replaces any other",
    ],
    [
      "a model twice",
      { ai: { provider: { openai: {} }, models: [{ name: "a" }, { name: "b" }, { name: "a", as: "c" }] } },
      "spec.ai.models[2].name: name a is used twice",
    ],
    [
      "a model without a name",
      { ai: { provider: { openai: {} }, models: [{ name: "" }] } },
      'spec.ai.models[0].name: found "", accepted is a model\'s name of at most 256 characters',
    ],
    [
      "no credentials",
      { ai: { provider: { openai: {} }, auth: {} } },
      "spec.ai.auth: found neither, accepted is exactly one of secretRef and passthrough",
    ],
    [
      "a key in the open",
      { ai: { provider: { openai: {} }, auth: { apiKey: "sk-1" } } },
      'spec.ai.auth.apiKey: unknown field "apiKey", accepted are secretRef, passthrough',
    ],
    [
      "a URL as host",
      { static: { host: "http://a", port: 1 } },
      'spec.static.host: found "http://a", accepted is a host name or an IP address',
    ],
    [
      "a host that ends in a number and is no IP address",
      { static: { host: "foo.1", port: 1 } },
      'spec.static.host: found "foo.1", accepted is a host name or an IP address',
    ],
    [
      "a host too long",
      { static: { host: "a".repeat(254), port: 1 } },
      `spec.static.host: found "${"a".repeat(80)}…", accepted is a host name or an IP address`,
    ],
    [
      "a host that is no text",
      { static: { host: 10, port: 1 } },
      "spec.static.host: found 10, accepted is a host name or an IP address",
    ],
    [
      "a port in its host",
      { static: { host: "a:80", port: 1 } },
      'spec.static.host: found "a:80", accepted is a host name or an IP address',
    ],
    ["no port", { static: { host: "a" } }, "spec.static.port: missing, required is an integer from 1 to 65535"],
    [
      "a query in its path",
      { ai: { provider: { openai: {} }, path: "/v1?a=b" } },
      'spec.ai.path: found "/v1?a=b", accepted is an absolute path such as /openai, without query',
    ],
  ])("must not have %s", (_, spec, fault) => {
    expect(errorsOf(backend(spec))).toEqual([fault]);
  });
});

describe("a ReferenceGrant", () => {
  const grant = (spec: object) => object("gateway.networking.k8s.io/v1beta1", "ReferenceGrant", { spec });
  const from = [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", namespace: "a" }];

  test("names who may refer to what", () => {
    expect(errorsOf(grant({ from, to: [{ group: "", kind: "Service" }] }))).toEqual([]);
  });

  test.each([
    [
      "an empty from",
      { from: [], to: [{ group: "", kind: "Service" }] },
      "spec.from: found 0 items, accepted are at least 1",
    ],
    ["nothing", { from, to: [] }, "spec.to: found 0 items, accepted are at least 1"],
    [
      "a group left out",
      { from, to: [{ kind: "Service" }] },
      "spec.to[0].group: missing, required is an API group such as gateway.networking.k8s.io, or empty",
    ],
  ])("must not name %s", (_, spec, fault) => {
    expect(errorsOf(grant(spec))).toEqual([fault]);
  });
});

describe("a core object", () => {
  test.each([
    [
      "a Service",
      object("v1", "Service", {
        spec: {
          clusterIP: "10.0.0.1",
          sessionAffinity: "None",
          ports: [{ port: 80, targetPort: "http", nodePort: 30080 }],
        },
        status: {},
      }),
    ],
    ["a Service without ports", object("v1", "Service", {})],
    [
      "an EndpointSlice",
      object("discovery.k8s.io/v1", "EndpointSlice", {
        addressType: "IPv4",
        endpoints: [{ addresses: ["10.0.0.1"], nodeName: "n", conditions: { serving: true } }],
        ports: [{ port: 1, appProtocol: "x" }],
      }),
    ],
    [
      "a Namespace",
      object("v1", "Namespace", { spec: { finalizers: ["kubernetes"] } }, { uid: "1", annotations: { a: "b" } }),
    ],
    ["a Secret", object("v1", "Secret", { type: "Opaque", immutable: true })],
  ])("%s may have fields that do not concern us", (_, value) => {
    expect(errorsOf(value)).toEqual([]);
  });

  test.each([
    [
      "a Service's port",
      object("v1", "Service", { spec: { ports: [{ port: "http" }] } }),
      'spec.ports[0].port: found "http", accepted is an integer from 1 to 65535',
    ],
    [
      "a Service's type",
      object("v1", "Service", { spec: { type: "Loadbalancer" } }),
      'spec.type: found "Loadbalancer", accepted is one of "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"; did you mean "LoadBalancer"?',
    ],
    [
      "an endpoint without address",
      object("discovery.k8s.io/v1", "EndpointSlice", { addressType: "IPv4", endpoints: [{ addresses: [] }] }),
      "endpoints[0].addresses: found 0 items, accepted are at least 1",
    ],
    [
      "a name",
      object("v1", "Namespace", {}, { name: "Upper" }),
      `metadata.name: found "Upper", accepted is a name of lower case letters, digits, '-' and '.'`,
    ],
    [
      "a label",
      object("v1", "Namespace", {}, { labels: { a: true } }),
      "metadata.labels.a: found true, accepted is text (quote it if it looks like a number or a boolean)",
    ],
    [
      "a time",
      object("v1", "Namespace", {}, { creationTimestamp: "yesterday" }),
      'metadata.creationTimestamp: found "yesterday", accepted is a time such as 2026-01-31T12:00:00Z',
    ],
  ])("is rejected for %s", (_, value, fault) => {
    expect(errorsOf(value)).toEqual([fault]);
  });
});

describe("what is kept of an object", () => {
  function parsed(value: object) {
    const { kind, ...rest } = parseResource(value);
    return kind === "resource" && "resource" in rest ? rest.resource : expect.unreachable();
  }
  const labels = { tier: "web", "kubernetes.io/service-name": "a", "gateway.networking.k8s.io/gateway-name": "b" };

  test("are the labels that are used", () => {
    const slice = object("discovery.k8s.io/v1", "EndpointSlice", { addressType: "IPv4" }, { labels });
    expect(parsed(slice).metadata.labels).toEqual({ "kubernetes.io/service-name": "a" });
    expect(parsed(object("v1", "Service", {}, { labels })).metadata.labels).toEqual({
      "gateway.networking.k8s.io/gateway-name": "b",
    });
    expect(parsed(backend({ static: { host: "a", port: 1 } })).metadata.labels).toEqual({});
    expect(parsed(object("v1", "Namespace", {}, { labels })).metadata.labels).toEqual(labels);
    expect(parsed(object("v1", "Secret", {}, { labels })).metadata.labels).toEqual(labels);
  });

  test("are the first 1,024 ports of a Service, of which the others may be malformed", () => {
    const ports = Array.from({ length: 2_000 }, (_, at) => ({ name: `p${at}`, port: at < 1_024 ? at + 1 : "none" }));
    expect(parsed(object("v1", "Service", { spec: { ports } }))).toMatchObject({ spec: { ports: { length: 1_024 } } });
  });

  test("are the first errors of a rejected object, one of each rule, and the number of the others", () => {
    const header = { name: "a", value: "" };
    const rules = Array.from({ length: 16 }, () => ({ matches: [{ headers: [header, header, header] }] }));
    const route = object("gateway.networking.k8s.io/v1", "HTTPRoute", { spec: { rules } });
    const errors = errorsOf(route);
    expect(errors).toHaveLength(20 + 9 + 1);
    for (const at of rules.keys()) expect(errors.join()).toContain(`spec.rules[${at}]`);
    expect(errors.at(-1)).toBe("19 further errors are not listed");
  });

  test.each([
    ["of invalid texts", { name: "a", value: "" }],
    ["of large expressions", { name: "a", value: "x{1000}{1000}", type: "RegularExpression" }],
    ["of other words", { name: "a", value: "x", type: "Prefix" }],
    ["of unknown fields", { name: "a", value: "x", unknown: 1 }],
  ])("is no list of hundreds of errors %s", (_, header) => {
    const matches = Array.from({ length: 64 }, () => ({ headers: Array.from({ length: 16 }, () => header) }));
    const route = object("gateway.networking.k8s.io/v1", "HTTPRoute", { spec: { rules: [{ matches }, { matches }] } });
    expect(errorsOf(route)).toEqual(["has too many errors to list them"]);
  });
});

describe("a Secret", () => {
  function value(body: object, key: string): string | undefined {
    const parsed = parseResource(object("v1", "Secret", body));
    if (parsed.kind !== "resource" || parsed.resource.kind !== "Secret") return expect.unreachable();
    return secretValue(parsed.resource, key);
  }

  test.each([
    ["base64", { data: { apiKey: "c2stMQ==" } }, "sk-1"],
    ["base64 of a line", { data: { apiKey: "c2stMQo=" } }, "sk-1"],
    ["plain text", { stringData: { apiKey: "sk-1\n" } }, "sk-1"],
    ["plain text rather than base64", { stringData: { apiKey: "plain" }, data: { apiKey: "c2stMQ==" } }, "plain"],
    ["nothing under another key", { data: { other: "c2stMQ==" } }, undefined],
  ])("gives %s", (_, body, expected) => {
    expect(value(body, "apiKey")).toBe(expected);
  });

  test("has no value under a name that every object has", () => {
    expect(value({}, "constructor")).toBeUndefined();
  });

  test.each([
    [
      "data",
      { data: { apiKey: "sk-canary!" } },
      "data.apiKey: found text, accepted is base64 text (plain text belongs in stringData)",
    ],
    [
      "stringData",
      { stringData: { apiKey: ["sk-canary"] } },
      "stringData.apiKey: found a list, accepted is text (quote it if it looks like a number or a boolean)",
    ],
    [
      "type",
      { type: 12345 },
      "type: found a number, accepted is text (quote it if it looks like a number or a boolean)",
    ],
  ])("never shows what stands in it when its %s is wrong", (_, body, fault) => {
    expect(errorsOf(object("v1", "Secret", body))).toEqual([fault]);
  });
});

describe("an object of another kind", () => {
  test.each([
    ["passed over", object("apps/v1", "Deployment", {}), "foreign"],
    ["passed over, though its kind has our kind's name", object("networking.istio.io/v1", "Gateway", {}), "foreign"],
    [
      "reported, where its kind is misspelt",
      object("gatewayproxy.dev/v1alpha1", "ProxyPolcy", {}),
      'kind: found "ProxyPolcy", accepted in group gatewayproxy.dev is one of Backend, ProxyPolicy; did you mean "ProxyPolicy"?',
    ],
    [
      "reported, where its group is misspelt",
      object("gateway.networking.k8s/v1", "HTTPRoute", { spec: {} }),
      'apiVersion: found "gateway.networking.k8s/v1", accepted for HTTPRoute is gateway.networking.k8s.io/v1 or gateway.networking.k8s.io/v1beta1',
    ],
    [
      "reported, where its version is not supported",
      object("gatewayproxy.dev/v1", "Backend", { spec: { static: { host: "a", port: 1 } } }),
      'apiVersion: found "gatewayproxy.dev/v1", accepted is "gatewayproxy.dev/v1alpha1"',
    ],
    ["reported, where it has no kind", { apiVersion: "v1" }, "kind: missing, required is a kind such as HTTPRoute"],
    ["reported, where it has no version", { kind: "Service" }, "apiVersion: missing, required is a version such as v1"],
    [
      "reported, where it is not an object",
      ["a"],
      "found a list, accepted is a map with apiVersion, kind and metadata",
    ],
  ])("is %s", (_, value, fault) => {
    expect(errorsOf(value)).toEqual([fault]);
  });
});

test("a Secret of a million blanks is parsed in linear time", () => {
  const data = { key: `${" ".repeat(1_000_000)}!` };
  const before = process.cpuUsage();
  expect(parseResource(object("v1", "Secret", { data })).kind).toBe("rejected");
  const { user, system } = process.cpuUsage(before);
  // Some 10 ms; a pattern that restarts at each blank takes minutes.
  expect(user + system).toBeLessThan(2_000_000);
});
