import { describe, expect, test } from "vitest";
import { cacheResource } from "./cached-resource.ts";
import { droppedFields } from "./dropped-fields.ts";

const authorities = { validation: { caCertificateRefs: [{ group: "", kind: "ConfigMap", name: "ca" }] } };
const listener = { name: "https", port: 443, protocol: "HTTPS", tls: { certificateRefs: [{ name: "c" }] } };
const plain = { gatewayClassName: "c", listeners: [listener] };
/** What the API server records of the client certificates. */
const ofFrontend = {
  "f:tls": { ".": {}, "f:frontend": { ".": {}, "f:default": { "f:validation": { "f:caCertificateRefs": {} } } } },
};

const gatewayVersion = "gateway.networking.k8s.io/v1";

function gateway(spec: object, managed: object, entry: object = {}) {
  const apiVersion = gatewayVersion;
  const managedFields = [
    { manager: "helm", operation: "Apply", apiVersion, fieldsV1: { "f:spec": managed }, ...entry },
  ];
  return {
    ...{ apiVersion, kind: "Gateway" },
    metadata: { name: "web", namespace: "a", uid: "u", managedFields },
    spec,
  };
}

function pathsOf(object: Parameters<typeof droppedFields>[0]) {
  return droppedFields(object).map(({ path }) => path.join("."));
}

describe("dropped fields", () => {
  test.each([
    ["of which nothing is left", plain, "spec.tls.frontend"],
    ["of which a map is left", { ...plain, tls: {} }, "spec.tls.frontend"],
    [
      "of which a part is left",
      { ...plain, tls: { frontend: { default: {} } } },
      "spec.tls.frontend.default.validation",
    ],
  ])("are client certificates %s", (_, spec, path) => {
    expect(pathsOf(gateway(spec, ofFrontend))).toEqual([path]);
  });

  test("are none where the object has them", () => {
    expect(pathsOf(gateway({ ...plain, tls: { frontend: { default: authorities } } }, ofFrontend))).toEqual([]);
  });

  test("are those of a listener, by its name", () => {
    const ofTls = { ".": {}, "f:certificateRefs": {}, "f:frontendValidation": { "f:caCertificateRefs": {} } };
    const managed = { "f:listeners": { ".": {}, 'k:{"name":"https"}': { ".": {}, "f:name": {}, "f:tls": ofTls } } };
    expect(pathsOf(gateway(plain, managed))).toEqual(["spec.listeners.0.tls.frontendValidation"]);
    const ofOther = { "f:listeners": { 'k:{"name":"removed"}': { ".": {}, "f:tls": ofTls } } };
    expect(pathsOf(gateway(plain, ofOther))).toEqual([]);
  });

  test("are none of a status, of an alpha version, and of parts that restrict nothing", () => {
    expect(pathsOf(gateway(plain, ofFrontend, { subresource: "status" }))).toEqual([]);
    expect(pathsOf(gateway(plain, ofFrontend, { apiVersion: "gateway.networking.k8s.io/v1alpha2" }))).toEqual([]);
    expect(pathsOf(gateway(plain, ofFrontend, { apiVersion: "gateway.networking.k8s.io/v1beta1" }))).toHaveLength(1);
    expect(pathsOf(gateway(plain, { "f:backendTLS": {}, "f:infrastructure": {} }))).toEqual([]);
  });

  test.each(["ProxyPolicy", "Backend"])("are any of a %s", (kind) => {
    const apiVersion = "gatewayproxy.dev/v1alpha1";
    const object = gateway({ traffic: {} }, { "f:traffic": { "f:authentication": {} } }, { apiVersion });
    expect(pathsOf({ ...object, apiVersion, kind })).toEqual(["spec.traffic.authentication"]);
  });

  test("are a few, whatever the managed fields are", () => {
    const managed = Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`f:${at}`, {}]));
    expect(droppedFields(gateway(plain, { "f:listeners": { 'k:{"name":"https"}': managed } }))).toHaveLength(8);
    const ofList = { "f:tls": { "f:certificateRefs": { ".": {} } } };
    const ofListeners = Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`k:{"name":"l${at}"}`, ofList]));
    const entry = { manager: "m", apiVersion: gatewayVersion, fieldsV1: { "f:spec": { "f:listeners": ofListeners } } };
    const managedFields = Array.from({ length: 2_000 }, () => entry);
    const certificateRefs = Array.from({ length: 64 }, () => ({ name: "c" }));
    const listeners = Array.from({ length: 64 }, (_, at) => ({
      ...listener,
      name: `l${at}`,
      tls: { certificateRefs },
    }));
    const { metadata, ...rest } = gateway({ ...plain, listeners }, {});
    let reads = 0;
    const counted = new Proxy(listeners, { get: (list, key) => (reads++, Reflect.get(list, key) as unknown) });
    expect(droppedFields({ ...rest, metadata: { ...metadata, managedFields }, spec: { listeners: counted } })).toEqual(
      [],
    );
    expect(reads).toBeLessThan(20_000);
    for (const odd of [null, [], "f:tls", { "f:tls": null }, { "f:tls": { "f:frontend": 7 } }, { "f:listeners": [] }]) {
      expect(() => droppedFields(gateway(plain, odd as object))).not.toThrow();
      expect(() => droppedFields(gateway([] as object, odd as object))).not.toThrow();
    }
  });
});

describe("an object with dropped fields", () => {
  const dropped = gateway(plain, ofFrontend);
  const options = { keepsStatus: false, errors: droppedFields(dropped) };

  test("keeps its last valid version in force", () => {
    const whole = gateway({ ...plain, tls: { frontend: { default: authorities } } }, ofFrontend);
    const before = cacheResource(whole, undefined, { keepsStatus: false });
    const { resource, rejected } = cacheResource(dropped, before, options);
    expect([resource, rejected?.inForce]).toEqual([before.resource, "lastValidVersion"]);
  });

  test("has its remains where none is known, of which nothing is served", () => {
    const { resource, rejected } = cacheResource(dropped, undefined, options);
    expect(resource).toMatchObject({ kind: "Gateway", spec: { listeners: [] } });
    expect(rejected).toMatchObject({ inForce: "remains", errors: [{ path: ["spec", "tls", "frontend"] }] });
  });
});
