import { expect, test } from "vitest";
import { ReplicaCount } from "./replica-count.ts";

test("replicas are the endpoints that are read", () => {
  const replicas = new ReplicaCount();
  expect([replicas.of(3, true), replicas.of(2, true)]).toEqual([3, 2]);
});

test("without room for all endpoints, there are as many replicas as before, or more", () => {
  const replicas = new ReplicaCount();
  replicas.of(3, true);
  expect([replicas.of(1, false), replicas.of(5, false), replicas.of(2, true)]).toEqual([3, 5, 2]);
});

test("a proxy that starts without room for all endpoints permits little of a limit", () => {
  const replicas = new ReplicaCount();
  expect([replicas.of(1, false), replicas.of(2, true)]).toEqual([1_000, 2]);
});
