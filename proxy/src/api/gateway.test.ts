import { describe, expect, test } from "vitest";
import { errorsOf } from "./testing/errors.ts";

const http = { name: "http", port: 80, protocol: "HTTP" };

function gateway(listeners: readonly unknown[], spec: object = {}) {
  return {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "Gateway",
    metadata: { name: "web" },
    spec: { gatewayClassName: "gateway-proxy", listeners, ...spec },
  };
}

const hostname = "a host name in lower case such as www.example.com or *.example.com";
const terminate = { certificateRefs: [{ name: "cert" }] };

describe("a listener", () => {
  test.each([
    ["a hostname", { hostname: "www.example.com" }],
    ["a wildcard", { hostname: "*.example.com" }],
    ["TLS terminated", { protocol: "HTTPS", tls: terminate }],
    ["TLS passed through", { protocol: "TLS", tls: { mode: "Passthrough" } }],
    ["a domain-prefixed protocol", { protocol: "example.com/own" }],
    [
      "routes of selected namespaces",
      {
        allowedRoutes: {
          namespaces: { from: "Selector", selector: { matchExpressions: [{ key: "a", operator: "Exists" }] } },
        },
      },
    ],
  ])("may have %s", (_, parts) => {
    expect(errorsOf(gateway([{ ...http, ...parts }]))).toEqual([]);
  });

  test.each([
    ["port 0", { port: 0 }, ".port: found 0, accepted is an integer from 1 to 65535"],
    ["a port too high", { port: 70000 }, ".port: found 70000, accepted is an integer from 1 to 65535"],
    [
      "upper case in its hostname",
      { hostname: "Www.example.com" },
      `.hostname: found "Www.example.com", accepted is ${hostname}`,
    ],
    ["a wildcard in the middle", { hostname: "a.*.com" }, `.hostname: found "a.*.com", accepted is ${hostname}`],
    ["a port in its hostname", { hostname: "a.com:80" }, `.hostname: found "a.com:80", accepted is ${hostname}`],
    ["an empty hostname", { hostname: "" }, `.hostname: found "", accepted is ${hostname}`],
    ["TLS on plain HTTP", { tls: terminate }, ".tls: tls must not be set where protocol is HTTP"],
    [
      "TLS passed through on HTTPS",
      { protocol: "HTTPS", tls: { mode: "Passthrough" } },
      ".tls: mode must be Terminate where protocol is HTTPS",
    ],
    ["TLS without tls", { protocol: "TLS" }, ".tls: tls is required where protocol is TLS"],
    [
      "TLS without certificate",
      { protocol: "HTTPS", tls: {} },
      ".tls: certificateRefs or options are required where mode is Terminate",
    ],
    [
      "a hostname on TCP",
      { protocol: "TCP", hostname: "a.com" },
      ".hostname: hostname must not be set where protocol is TCP",
    ],
    [
      "a misspelt selection",
      { allowedRoutes: { namespaces: { from: "all" } } },
      '.allowedRoutes.namespaces.from: found "all", accepted is one of "All", "Selector", "Same"; did you mean "All"?',
    ],
    [
      "an unknown operator",
      {
        allowedRoutes: {
          namespaces: { from: "Selector", selector: { matchExpressions: [{ key: "a", operator: "Is" }] } },
        },
      },
      '.allowedRoutes.namespaces.selector.matchExpressions[0].operator: found "Is", accepted is one of "In", "NotIn", "Exists", "DoesNotExist"; did you mean "In"?',
    ],
    [
      "an unknown field",
      { hostnames: ["a"] },
      '.hostnames: unknown field "hostnames", accepted are name, hostname, port, protocol, tls, allowedRoutes; did you mean "hostname"?',
    ],
  ])("must not have %s", (_, parts, fault) => {
    expect(errorsOf(gateway([{ ...http, ...parts }]))).toEqual([`spec.listeners[0]${fault}`]);
  });
});

describe("a Gateway", () => {
  test.each([
    ["addresses", { addresses: [{ value: "10.0.0.1" }, { type: "Hostname", value: "a.com" }, {}] }],
    ["infrastructure", { infrastructure: { labels: { a: "b" }, annotations: { a: "b" } } }],
    [
      "TLS towards clients and backends",
      {
        tls: {
          backend: { clientCertificateRef: { name: "c" } },
          frontend: {
            default: { validation: { caCertificateRefs: [{ group: "", kind: "ConfigMap", name: "ca" }] } },
            perPort: [{ port: 443, tls: {} }],
          },
        },
      },
    ],
    ["listeners of others", { allowedListeners: { namespaces: { from: "Same" } } }],
  ])("may have %s", (_, spec) => {
    expect(errorsOf(gateway([http], spec))).toEqual([]);
  });

  test.each([
    ["no listeners", [], {}, "spec.listeners: found 0 items, accepted are at least 1"],
    [
      "two listeners of one name",
      [http, { ...http, port: 81 }],
      {},
      'spec.listeners[1].name: a second listener has the name "http"',
    ],
    [
      "two listeners alike",
      [http, { ...http, name: "again" }],
      {},
      "spec.listeners[1]: a second listener has port 80, protocol HTTP, no hostname",
    ],
    [
      "two listeners of one hostname",
      [
        { ...http, hostname: "a.com" },
        { ...http, name: "again", hostname: "a.com" },
      ],
      {},
      "spec.listeners[1]: a second listener has port 80, protocol HTTP, hostname a.com",
    ],
    [
      "an address twice",
      [http],
      { addresses: [{ value: "::1" }, { value: "::1" }] },
      "spec.addresses[1]: IPAddress ::1 is named twice",
    ],
    [
      "no class",
      [http],
      { gatewayClassName: null },
      "spec.gatewayClassName: missing, required is a name of 1 to 253 characters",
    ],
  ])("must not have %s", (_, listeners, spec, fault) => {
    expect(errorsOf(gateway(listeners, spec))).toEqual([fault]);
  });
});
