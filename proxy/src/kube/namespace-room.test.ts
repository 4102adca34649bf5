import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { FreedLists, NamespaceRoom, SharedRoom } from "./namespace-room.ts";

function twoRooms() {
  const room = new SharedRoom(80);
  const routes = new NamespaceRoom({ kinds: ["Route"], maxBytes: 80, shared: { room, ownBytes: 10 } });
  const backends = new NamespaceRoom({ kinds: ["Backend"], maxBytes: 60, shared: { room, ownBytes: 10 } });
  return { routes, backends };
}

test("a namespace has the room of a kind, and no more than that of several kinds together", () => {
  const { routes, backends } = twoRooms();
  expect([routes.has("crowd", 81), routes.has("crowd", 80)]).toEqual([false, true]);
  routes.count("crowd", 80);
  expect([backends.has("crowd", 21), backends.has("crowd", 20), backends.has("other", 60)]).toEqual([
    false,
    true,
    true,
  ]);
  backends.count("crowd", 20);
  // A version that takes less than the one before it has room.
  expect([routes.has("crowd", 80, 80), routes.has("crowd", 81, 80)]).toEqual([true, false]);
});

test("a kind has a part of its own, whatever the others take", () => {
  const { routes, backends } = twoRooms();
  backends.count("crowd", 60);
  routes.count("crowd", 30);
  expect([routes.has("crowd", 11), routes.has("crowd", 10)]).toEqual([false, true]);
  routes.count("crowd", -30);
  routes.count("crowd", 40);
  backends.count("crowd", -60);
  expect([backends.has("crowd", 60), routes.has("crowd", 40)]).toEqual([true, true]);
});

test("what is removed of a kind makes room for what is left out of another one", () => {
  const { routes, backends } = twoRooms();
  routes.count("crowd", 80);
  backends.leaveOut("Backend", "crowd");
  expect([routes.hasFreed, backends.hasFreed]).toEqual([false, false]);
  routes.count("crowd", -10);
  expect([routes.hasFreed, backends.takeFreed()]).toEqual([false, [{ kind: "Backend", namespace: "crowd" }]]);
  routes.count("other", 10);
  routes.count("other", -10);
  expect(backends.hasFreed).toBe(false);
});

test("what is freed is listed again every 30 seconds at most", () => {
  const clock = new FakeClock();
  const room = new NamespaceRoom({ kinds: ["Route"], maxBytes: 10 });
  const listed: unknown[] = [];
  const lists: FreedLists<"Route"> = new FreedLists({
    ...{ clock, rooms: [room] },
    listAgain: (kind, namespaces) => listed.push([kind, namespaces]),
    onDue: () => lists.use(),
  });
  const free = (namespace: string) => {
    room.leaveOut("Route", namespace);
    room.count(namespace, 1);
    room.count(namespace, -1);
    lists.use();
  };
  free("a");
  free("b");
  free("c");
  expect(listed).toEqual([["Route", ["a"]]]);
  clock.advance(30_000);
  expect(listed).toEqual([
    ["Route", ["a"]],
    ["Route", ["b", "c"]],
  ]);
});
