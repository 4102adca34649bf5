/**
 * The messages about references that fail have a bounded length, so that statuses and problems grow with the number of
 * objects, and not with their product.
 */
import { describe, expect, test } from "vitest";
import { parseResource } from "../api/parse-resource.ts";
import { type Resource, resourceSet } from "../api/resource.ts";
import { clusterEnvironment } from "./environment.ts";
import { translate } from "./translate.ts";

const gatewayApi = "gateway.networking.k8s.io/v1";
const metadata = (name: string) => ({ name, namespace: "tenant", creationTimestamp: "2026-01-01T00:00:00Z" });
const times = <Item>(length: number, make: (at: number) => Item): Item[] => Array.from({ length }, (_, at) => make(at));

const gatewayClass = {
  apiVersion: gatewayApi,
  kind: "GatewayClass",
  metadata: { name: "gateway-proxy" },
  spec: { controllerName: "gatewayproxy.dev/controller" },
};

function gateway(name: string, listeners: readonly object[]): object {
  const spec = { gatewayClassName: "gateway-proxy", listeners };
  return { apiVersion: gatewayApi, kind: "Gateway", metadata: metadata(name), spec };
}

const plain = gateway("g", [{ name: "http", port: 80, protocol: "HTTP" }]);

function route(name: string, spec: object): object {
  return { apiVersion: gatewayApi, kind: "HTTPRoute", metadata: metadata(name), spec };
}

/** As many references as a route may have: 16 rules with 16 backends and 15 mirrors of each. */
function manyReferences(refAt: (at: number) => object): object {
  const rules = times(16, (rule) => ({
    backendRefs: times(16, (backend) => {
      const first = (rule * 16 + backend) * 16;
      const mirrors = times(15, (mirror) => ({
        type: "RequestMirror",
        requestMirror: { backendRef: refAt(first + 1 + mirror) },
      }));
      return { ...refAt(first), filters: mirrors };
    }),
  }));
  return { parentRefs: [{ name: "g" }], rules };
}

function service(name: string, ports: number): object {
  const spec = { ports: times(ports, (at) => ({ name: `p${at}`, port: 10_000 + at })) };
  return { apiVersion: "v1", kind: "Service", metadata: metadata(name), spec };
}

const long = (at: number) => `${"n".repeat(50)}-${at}`;

const worlds: readonly (readonly [string, readonly object[]])[] = [
  [
    "a route to thousands of ports that a Service with thousands of ports does not have",
    [
      plain,
      service("s", 4_000),
      route(
        "r",
        manyReferences((at) => ({ name: "s", port: 1 + at })),
      ),
    ],
  ],
  [
    "a route to thousands of Services that do not exist",
    [
      plain,
      ...times(200, (at) => service(long(at), 1)),
      route(
        "r",
        manyReferences((at) => ({ name: long(1_000 + at), port: 80 })),
      ),
    ],
  ],
  [
    "routes whose hostnames none of many listeners has",
    [
      ...times(16, (at) =>
        gateway(
          `g${at}`,
          times(64, (listener) => ({
            ...{ name: `l${listener}`, port: 80, protocol: "HTTP" },
            hostname: `${times(3, () => "h".repeat(60)).join(".")}.l${listener}`,
          })),
        ),
      ),
      ...times(50, (at) =>
        route(`r${at}`, { parentRefs: times(16, (parent) => ({ name: `g${parent}` })), hostnames: ["elsewhere.test"] }),
      ),
    ],
  ],
  [
    "policies for targets that do not exist",
    [
      ...times(200, (at) => gateway(long(at), [{ name: "http", port: 80, protocol: "HTTP" }])),
      ...times(200, (at) => ({
        apiVersion: "gatewayproxy.dev/v1alpha1",
        kind: "ProxyPolicy",
        metadata: metadata(`p${at}`),
        spec: {
          targetRefs: times(16, (target) => ({
            group: "gateway.networking.k8s.io",
            kind: "Gateway",
            name: long(1_000 + at * 16 + target),
          })),
          traffic: { rateLimit: { local: [{ requests: 1, unit: "Minutes" }] } },
        },
      })),
    ],
  ],
];

function read(object: object): Resource {
  const parsed = parseResource(object);
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

/** Texts under the key `message`. */
function messagesIn(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, field]) =>
    key === "message" && typeof field === "string" ? [field] : messagesIn(field),
  );
}

describe.each(worlds)("of %s", (_, objects) => {
  const { statuses, problems } = translate(resourceSet([gatewayClass, ...objects].map(read)), {
    environment: clusterEnvironment(),
  });

  test("no message is long", () => {
    const messages = messagesIn([statuses, problems]);
    expect(messages.length).toBeGreaterThan(0);
    expect(Math.max(...messages.map(({ length }) => length))).toBeLessThan(4_200);
  });

  test("messages are not much longer than the manifests", () => {
    const written = JSON.stringify(objects).length;
    expect(JSON.stringify([statuses, problems]).length).toBeLessThan(8 * written);
  });
});
