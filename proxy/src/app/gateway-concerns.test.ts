import { expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import { gatewayScope } from "../translate/gateway/gateway-scope.ts";
import { concernsGateway } from "./gateway-concerns.ts";

const gateway = { namespace: "infra", name: "web" };

const text = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: infra}
spec:
  gatewayClassName: gateway-proxy
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: shop}
spec: {parentRefs: [{name: web, namespace: infra}]}
`;

const concerns = concernsGateway(gateway, gatewayScope(parseManifests([{ path: "a.yaml", text }]).resources, gateway));
const object = (kind: string, namespace: string | undefined, spec: object = {}, name = "web") => ({
  ...{ kind, metadata: { name, ...(namespace !== undefined && { namespace }) }, spec },
});

test.each([
  ["the Gateway", object("Gateway", "infra")],
  ["a class", object("GatewayClass", undefined)],
  [
    "a route with the Gateway as its parent",
    object("HTTPRoute", "bob", { parentRefs: [{ name: "web", namespace: "infra" }] }),
  ],
  ["a route of its namespace", object("GRPCRoute", "infra", { parentRefs: [{ name: "x" }, { name: "web" }] })],
  ["a ListenerSet of the Gateway", object("ListenerSet", "bob", { parentRef: { name: "web", namespace: "infra" } })],
  ["a policy where the Gateway has a route", object("ProxyPolicy", "shop")],
])("%s concerns its proxies, valid or not", (_, each) => {
  expect(concerns(each)).toBe(true);
});

test.each([
  ["another Gateway", object("Gateway", "bob")],
  ["a Gateway of the same namespace", object("Gateway", "infra", {}, "other")],
  ["a route of another Gateway", object("HTTPRoute", "infra", { parentRefs: [{ name: "other" }] })],
  [
    "a route of another kind of parent",
    object("HTTPRoute", "infra", { parentRefs: [{ kind: "Service", group: "", name: "web" }] }),
  ],
  ["a route whose parents cannot be read", object("HTTPRoute", "infra", { parentRefs: "web" })],
  ["a ListenerSet of another Gateway", object("ListenerSet", "infra", { parentRef: { name: "other" } })],
  ["a policy of another tenant", object("ProxyPolicy", "bob")],
  ["a Backend of another tenant", object("Backend", "bob")],
])("%s does not concern the proxies of the Gateway", (_, each) => {
  expect(concerns(each)).toBe(false);
});
