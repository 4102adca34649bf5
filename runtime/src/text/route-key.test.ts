import { expect, test } from "vitest";
import { routeKey, routeKind, routeName, routeTarget, routeTitle } from "./route-key.ts";

test.each([
  ["HTTPRoute", "default/chat"],
  ["GRPCRoute", "GRPCRoute/default/chat"],
] as const)("the key of a %s is %s", (kind, key) => {
  expect(routeKey(kind, { namespace: "default", name: "chat" })).toBe(key);
  expect([routeKind(key), routeName(key)]).toEqual([kind, "default/chat"]);
  expect([routeTitle(key), routeTarget(key)]).toEqual([`${kind} default/chat`, `${kind}/default/chat`]);
});
