import { expect, test } from "vitest";
import { isStreamRouteKind, routeKey, routeKind, routeName, routeTarget, routeTitle } from "./route-key.ts";

test.each([
  ["HTTPRoute", "default/chat"],
  ["GRPCRoute", "GRPCRoute/default/chat"],
  ["TLSRoute", "TLSRoute/default/chat"],
  ["TCPRoute", "TCPRoute/default/chat"],
  ["UDPRoute", "UDPRoute/default/chat"],
] as const)("the key of a %s is %s", (kind, key) => {
  expect(routeKey(kind, { namespace: "default", name: "chat" })).toBe(key);
  expect([routeKind(key), routeName(key)]).toEqual([kind, "default/chat"]);
  expect([routeTitle(key), routeTarget(key)]).toEqual([`${kind} default/chat`, `${kind}/default/chat`]);
  expect(isStreamRouteKind(kind)).toBe(/^(?:TLS|TCP|UDP)/.test(kind));
});
