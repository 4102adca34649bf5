import { expect, test } from "vitest";
import type { KubeObject } from "../../kube/object.ts";
import { OwnedMemory } from "./owned-memory.ts";

function object(namespace: string, name: string, bytes = 0): KubeObject {
  return { metadata: { ...(namespace !== "" && { namespace }), name }, spec: { text: "x".repeat(bytes) } };
}

/** Eight small objects of a namespace have room, and two rights. */
const heapBytes = (8 * 1_500 * 32) / 3;

/** Reads new objects, and returns those that are kept. */
function readAll(
  memory: OwnedMemory,
  kind: "Service" | "Deployment" | "Role" | "ClusterRoleBinding",
  namespace: string,
) {
  const all = Array.from({ length: 20 }, (_, at) => memory.read(kind, object(namespace, `n${at}`), undefined));
  return all.filter((each) => each !== undefined);
}

test("objects of a namespace are left out beyond its memory, and rights beyond that of rights", () => {
  const memory = new OwnedMemory({ heapBytes });
  expect(readAll(memory, "Service", "crowd")).toHaveLength(8);
  expect(readAll(memory, "Deployment", "crowd")).toHaveLength(0);
  expect(readAll(memory, "Role", "crowd")).toHaveLength(2);
  expect(readAll(memory, "ClusterRoleBinding", "")).toHaveLength(20);
  expect(memory.leavesOut("Deployment", "crowd")).toBe(true);
  expect(memory.leavesOut("StatefulSet", "crowd")).toBe(false);
  expect(memory.leavesOut("ClusterRoleBinding", undefined)).toBe(false);
});

test("two namespaces with as many objects as there is room for have half of it each, and the last ones are left out", () => {
  const leftOut: string[] = [];
  const memory = new OwnedMemory({ heapBytes, onLeftOut: (kind, key) => leftOut.push(`${kind} ${key}`) });
  expect(readAll(memory, "Service", "crowd")).toHaveLength(8);
  expect(readAll(memory, "Service", "other")).toHaveLength(4);
  expect(leftOut).toEqual(["Service crowd/n7", "Service crowd/n6", "Service crowd/n5", "Service crowd/n4"]);
  expect(["crowd", "other"].map((namespace) => memory.leavesOut("Service", namespace))).toEqual([true, true]);
  // A small one loses nothing.
  expect(memory.read("Service", object("small", "n"), undefined)).toBeDefined();
  expect(leftOut.slice(4)).toEqual(["Service crowd/n3", "Service other/n3"]);
});

test("an object that becomes too large is left out", () => {
  const memory = new OwnedMemory({ heapBytes });
  const small = memory.read("Service", object("crowd", "n"), undefined);
  if (small === undefined) throw new Error("there is no room");
  expect(memory.read("Service", object("crowd", "n", 20_000), small)).toBeUndefined();
  memory.release(small);
  expect(readAll(memory, "Service", "crowd")).toHaveLength(8);
});

test("an object counts with its empty maps, which are short as JSON", () => {
  const memory = new OwnedMemory({ heapBytes });
  const ingress = Array.from({ length: 300 }, () => ({}));
  const policy = { metadata: { namespace: "crowd", name: "n" }, spec: { ingress } };
  expect(memory.read("NetworkPolicy", policy, undefined)).toBeUndefined();
});

test("kinds with objects that are left out are listed again once others are removed", () => {
  const memory = new OwnedMemory({ heapBytes });
  const [first, second] = readAll(memory, "Service", "crowd");
  if (first === undefined || second === undefined) throw new Error("there is no room");
  const room = memory.roomOf("Service");
  expect(room.hasFreed).toBe(false);
  memory.release(first);
  expect([room.hasFreed, room.takeFreed()]).toEqual([true, [{ kind: "Service", namespace: "crowd" }]]);
  room.beginList("Service", "crowd");
  memory.release(second);
  expect(room.hasFreed).toBe(false);
});
