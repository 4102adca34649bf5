/** Of an object of the API server, what is read stays, and nothing that anyone could add by the thousand. */
import { describe, expect, test } from "vitest";
import { usedPart } from "./used-part.ts";

const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`a${at}`, ""]));
const metadata = { namespace: "a", name: "n", uid: "u", generation: 3, creationTimestamp: "2026-01-01T00:00:00Z" };

test("labels of Services and EndpointSlices stay, and no others", () => {
  const labels = { "kubernetes.io/service-name": "s", "gateway.networking.k8s.io/gateway-name": "g" };
  const slice = { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", addressType: "IPv4", endpoints: [] };
  const annotated = { ...metadata, labels: { ...many, ...labels }, annotations: many, managedFields: [{}] };
  expect(usedPart({ ...slice, metadata: annotated })).toEqual({ ...slice, metadata: { ...metadata, labels } });
});

test("a selector has its first labels", () => {
  const service = { apiVersion: "v1", kind: "Service", metadata, spec: { type: "ClusterIP", selector: many } };
  const selector = Object.fromEntries(Object.entries(many).slice(0, 64));
  expect(usedPart(service)).toEqual({ ...service, spec: { type: "ClusterIP", selector } });
});

describe("a Secret", () => {
  const secret = { apiVersion: "v1", kind: "Secret", metadata, type: "kubernetes.io/tls" };

  test("of usual size stays as it is", () => {
    const labels = { tier: "gold" };
    const whole = {
      ...secret,
      metadata: { ...metadata, labels, annotations: { note: "n" } },
      data: { apiKey: "a2V5" },
    };
    expect(usedPart(whole)).toEqual(whole);
  });

  test("has 1,024 keys, and those by which values are found wherever they are", () => {
    const { data } = usedPart({ ...secret, data: { ...many, "tls.crt": "Yw==", apiKey: "a2V5" } });
    expect(Object.keys(data ?? {})).toHaveLength(1_026);
    expect(data).toMatchObject({ a0: "", "tls.crt": "Yw==", apiKey: "a2V5" });
  });

  test("has 1,024 labels and annotations, and a short type", () => {
    const used = usedPart({
      ...secret,
      metadata: { ...metadata, labels: many, annotations: many },
      type: "t".repeat(999),
    });
    expect(JSON.stringify(used).length).toBeLessThan(30_000);
    expect(used["type"]).toBe("t".repeat(253));
  });
});

test("a ConfigMap has 1,024 keys, and no binary ones", () => {
  const used = usedPart({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata,
    data: { ...many, jwks: "{}" },
    binaryData: many,
  });
  expect(Object.keys(used)).toEqual(["apiVersion", "kind", "metadata", "data"]);
  expect(Object.keys(used["data"] ?? {})).toHaveLength(1_025);
});

test("a field with the name of a prototype is one like others", () => {
  const data: unknown = JSON.parse('{ "__proto__": "e30=" }');
  const used = usedPart({ apiVersion: "v1", kind: "Secret", metadata, data: { ...many, ...(data as object) } });
  expect(Object.getPrototypeOf(used["data"])).toBe(Object.prototype);
});
