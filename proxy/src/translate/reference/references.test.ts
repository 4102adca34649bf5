import { runToEnd } from "@gatewayproxy/runtime/steps";
import { describe, expect, test } from "vitest";
import { gatewayGroup, proxyGroup } from "../../api/names.ts";
import { parseResource } from "../../api/parse-resource.ts";
import { type Resource, resourceSet } from "../../api/resource.ts";
import { maxReferencesOfNamespace, maxReferencesOfOwner } from "./owner-references.ts";
import { namedObjects, namedWithinBound } from "./references.ts";
import { translate } from "../translate.ts";

function resource(group: string, kind: string, spec: object): Resource {
  const apiVersion = `${group}/${group === proxyGroup ? "v1alpha1" : "v1"}`;
  const parsed = parseResource({ apiVersion, kind, metadata: { name: "r", namespace: "ours" }, spec });
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

const gateway = (tls: object, listenerTls?: object): Resource =>
  resource(gatewayGroup, "Gateway", {
    gatewayClassName: "gateway-proxy",
    listeners: [{ name: "a", port: 443, protocol: "HTTPS", ...(listenerTls && { tls: listenerTls }) }],
    tls,
  });

/** Permits Gateways and ListenerSets of `ours` to refer to the object `granted` in `theirs`. */
function grant(kind: string): Resource {
  const parsed = parseResource({
    apiVersion: `${gatewayGroup}/v1beta1`,
    kind: "ReferenceGrant",
    metadata: { name: "g", namespace: "theirs" },
    spec: {
      from: ["Gateway", "ListenerSet"].map((from) => ({ group: gatewayGroup, kind: from, namespace: "ours" })),
      to: [{ group: "", kind, name: "granted" }],
    },
  });
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

const named = (...resources: readonly Resource[]): readonly string[] =>
  runToEnd(namedObjects(resourceSet(resources))).map(({ kind, namespace, name }) => `${kind} ${namespace}/${name}`);

const configMap = (name: string, namespace?: string) => ({ group: "", kind: "ConfigMap", name, namespace });
const both = (kind: string) => ["granted", "other"].map((name) => ({ group: "", kind, name, namespace: "theirs" }));
const frontend = (...caCertificateRefs: readonly object[]) => ({ validation: { caCertificateRefs } });

describe("the Secrets and ConfigMaps that are read are the referents of", () => {
  test.each([
    ["a listener", gateway({}, { certificateRefs: [{ name: "cert" }] }), ["Secret ours/cert"]],
    ["a Gateway for clients", gateway({ frontend: { default: frontend(configMap("ca")) } }), ["ConfigMap ours/ca"]],
    [
      "a Gateway for the clients of one port",
      gateway({
        frontend: { default: frontend(configMap("ca")), perPort: [{ port: 443, tls: frontend(configMap("port-ca")) }] },
      }),
      ["ConfigMap ours/ca", "ConfigMap ours/port-ca"],
    ],
    [
      "a Gateway for its backends",
      gateway({ backend: { clientCertificateRef: { name: "client" } } }),
      ["Secret ours/client"],
    ],
    [
      "a BackendTLSPolicy, which can name none but ConfigMaps",
      resource(gatewayGroup, "BackendTLSPolicy", {
        targetRefs: [{ group: "", kind: "Service", name: "s" }],
        validation: {
          hostname: "a.example",
          caCertificateRefs: [configMap("ca"), { group: "example.com", kind: "Authority", name: "x" }].map(
            ({ group, kind, name }) => ({ group, kind, name }),
          ),
        },
      }),
      ["ConfigMap ours/ca"],
    ],
    [
      "a Backend",
      resource(proxyGroup, "Backend", {
        static: { host: "a.example", port: 443, tls: { caRef: { name: "ca" }, clientCertificateRef: { name: "me" } } },
      }),
      ["Secret ours/ca", "Secret ours/me"],
    ],
    [
      "a Backend of an LLM",
      resource(proxyGroup, "Backend", {
        ai: { provider: { openai: {} }, auth: { secretRef: { name: "key" } }, tls: { caRef: { name: "ca" } } },
      }),
      ["Secret ours/ca", "Secret ours/key"],
    ],
  ])("%s", (_, resourceThatNames, expected) => {
    expect(named(resourceThatNames)).toEqual(expected);
  });

  const set = resource(gatewayGroup, "ListenerSet", {
    parentRef: { name: "r" },
    listeners: [{ name: "a", port: 443, protocol: "HTTPS", tls: { certificateRefs: [{ name: "cert" }] } }],
  });
  const parent = (from: string, gatewayClassName = "gateway-proxy") =>
    resource(gatewayGroup, "Gateway", {
      gatewayClassName,
      allowedListeners: { namespaces: { from } },
      listeners: [{ name: "http", port: 80, protocol: "HTTP" }],
    });

  test.each([
    ["a ListenerSet that its Gateway takes", [set, parent("Same")], ["Secret ours/cert"]],
    ["no ListenerSet that its Gateway does not take", [set, parent("None")], []],
    ["no ListenerSet of another class's Gateway", [set, parent("Same", "theirs")], []],
    ["no ListenerSet without its Gateway", [set], []],
  ])("%s", (_, resources, expected) => {
    expect(named(...resources)).toEqual(expected);
  });

  test("no Gateway of another class", () => {
    const { spec, ...rest } = gateway({}, { certificateRefs: [{ name: "cert" }] }) as Resource & { kind: "Gateway" };
    expect(named({ ...rest, spec: { ...spec, gatewayClassName: "theirs" } })).toEqual([]);
  });

  test("a Gateway with thousands of references, up to a bound", () => {
    const certificates = Array.from({ length: 64 }, (_, index) => ({ name: `cert${index}` }));
    const listeners = Array.from({ length: 64 }, (_, listener) => ({
      ...{ name: `l${listener}`, hostname: `h${listener}.test`, port: 443, protocol: "HTTPS" },
      tls: { certificateRefs: certificates.map(({ name }) => ({ name: `${name}-${listener}` })) },
    }));
    const many = resource(gatewayGroup, "Gateway", { gatewayClassName: "gateway-proxy", listeners });
    expect(named(many)).toHaveLength(maxReferencesOfOwner);
    const { gateways } = translate(resourceSet([many])).statuses;
    const last = gateways[0]?.listeners.at(-1)?.conditions.find(({ type }) => type === "ResolvedRefs");
    expect(last).toMatchObject({
      status: "False",
      reason: "InvalidCertificateRef",
      message: expect.stringContaining(
        `Secret ours/cert0-63 is not read: Gateway ours/r refers to more than ${maxReferencesOfOwner} different Secrets and ConfigMaps`,
      ) as string,
    });
  });

  test("all objects of a namespace, up to a bound, and those of another namespace", () => {
    const backend = (namespace: string, name: string): Resource => {
      const spec = { ai: { provider: { openai: {} }, auth: { secretRef: { name: `key-of-${name}` } } } };
      const metadata = { name, namespace };
      const parsed = parseResource({ apiVersion: `${proxyGroup}/v1alpha1`, kind: "Backend", metadata, spec });
      if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
      return parsed.resource;
    };
    const crowd = Array.from({ length: maxReferencesOfNamespace + 1 }, (_, index) => backend("crowd", `b${index}`));
    const resources = resourceSet([...crowd, backend("other", "one")]);
    const { named: all, crowded } = runToEnd(namedWithinBound(resources));
    expect(all.filter(({ namespace }) => namespace === "crowd")).toHaveLength(maxReferencesOfNamespace);
    expect(all).toContainEqual({ kind: "Secret", namespace: "other", name: "key-of-one" });
    expect([...crowded]).toEqual(["crowd"]);
    const { backends } = translate(resources, { crowded }).statuses;
    const messageOf = (namespace: string) =>
      backends.find((each) => each.namespace === namespace)?.conditions[0]?.message;
    expect(messageOf("crowd")).toContain(
      `does not exist, or is not read: objects of namespace crowd refer to more than ${maxReferencesOfNamespace} Secrets and ConfigMaps, or those of the namespace have more than 64 MiB`,
    );
    expect(messageOf("other")).toBe("Secret other/key-of-one does not exist");
  });

  test("two, once", () => {
    const twice = { certificateRefs: [{ name: "cert" }, { name: "cert" }] };
    expect(named(gateway({}, twice))).toEqual(["Secret ours/cert"]);
  });
});

describe("of another namespace only what a ReferenceGrant there permits is read", () => {
  test.each([
    ["a certificate", "Secret", gateway({}, { certificateRefs: both("Secret") })],
    ["an authority for clients", "ConfigMap", gateway({ frontend: { default: frontend(...both("ConfigMap")) } })],
  ])("%s", (_, kind, resourceThatNames) => {
    expect(named(resourceThatNames)).toEqual([]);
    expect(named(resourceThatNames, grant(kind))).toEqual([`${kind} theirs/granted`]);
  });
});
