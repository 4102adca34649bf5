import { expect, test } from "vitest";
import { parseManifests } from "../../api/parse-manifests.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
} from "../../../../test/support/gateway.ts";
import { globalPolicy } from "../../../../test/support/global-policy.ts";
import { translate } from "../translate.ts";

/** Amount and burst that each replica counts of a shared fallback. */
function shares(fallback: string, readyReplicas: number) {
  const text = manifests(
    gatewayManifest(),
    backendManifest("llm", 80),
    routeManifest("chat", [`backendRefs: [${backendRef("llm")}]`]),
    globalPolicy(
      `address: '127.0.0.1:8081', descriptors: [{ entries: [{ name: all, expression: '"all"' }] }], fallback: [{ ${fallback}, shareAcrossReplicas: true }]`,
    ),
  );
  const { binds } = translate(parseManifests([{ path: "a.yaml", text }]).resources, { readyReplicas });
  const [rule] = binds
    .flatMap(({ listeners }) => listeners)
    .flatMap(({ routes }) => routes.flatMap(({ rules }) => rules));
  return rule?.globalLimits?.flatMap((limit) => limit.fallback.map(({ amount, burst }) => [amount, burst])) ?? [];
}

test.each([
  ["requests: 10, burst: 2, unit: Minutes", 1, [10, 2]],
  ["requests: 12, burst: 4, unit: Minutes", 4, [3, 1]],
  ["requests: 10, burst: 2, unit: Minutes", 3, [3, 0]],
  ["tokens: 1000, unit: Minutes", 3, [333, 0]],
  // A share of 0 would deny everything.
  ["requests: 2, unit: Minutes", 5, [1, 0]],
])("all replicas together admit no more than what they share: %s among %d", (fallback, replicas, share) => {
  expect(shares(fallback, replicas)).toEqual([share]);
});
