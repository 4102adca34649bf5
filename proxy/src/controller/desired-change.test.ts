import { expect, test } from "vitest";
import { parseResource } from "../api/parse-resource.ts";
import { type Resource, resourceSet } from "../api/resource.ts";
import { differsBeyondStatus } from "./desired-change.ts";

function backend(metadata: object, status?: object): Resource {
  const spec = { static: { host: "a.test", port: 80 } };
  const parsed = parseResource({
    ...{ apiVersion: "gatewayproxy.dev/v1alpha1", kind: "Backend", spec, status },
    metadata: { namespace: "a", name: "b", uid: "u", generation: 1, ...metadata },
  });
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

const differ = (before: readonly Resource[], after: readonly Resource[]) =>
  differsBeyondStatus(resourceSet(before), resourceSet(after));

test("another status is no change", () => {
  expect(differ([backend({})], [backend({}, { conditions: [] })])).toBe(false);
});

test.each<[string, readonly Resource[], readonly Resource[]]>([
  ["another generation", [backend({})], [backend({ generation: 2 })]],
  ["another object of the name", [backend({})], [backend({ uid: "v" })]],
  ["an object without a generation", [backend({})], [backend({ generation: undefined })]],
  ["another object", [backend({})], [backend({ name: "c" })]],
  ["an added object", [backend({})], [backend({}), backend({ name: "c" })]],
  ["a removed object", [backend({})], []],
])("%s is a change", (_, before, after) => {
  expect(differ(before, after)).toBe(true);
});
