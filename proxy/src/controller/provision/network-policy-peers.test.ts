import { expect, test } from "vitest";
import { networkPolicyPeers, peersOf } from "./network-policy-peers.ts";

test.each(["", "[]", "{}", "[{}]", "[1]", "[[]]", '[{"podselector":{}}]', '[{"ipBlock":"192.0.2.0/24"}]'])(
  "are no peers: %s",
  (text) => {
    expect(networkPolicyPeers.parse(text)).toBeUndefined();
  },
);

test("a podSelector alone selects pods of a given namespace, since the policy is in another one", () => {
  const [podSelector, all] = [{ matchLabels: { app: "prometheus" } }, {}];
  const peers = networkPolicyPeers.parse(
    JSON.stringify([{ podSelector }, { podSelector, namespaceSelector: all }, { namespaceSelector: all }]),
  );
  expect(peersOf(peers ?? [], "system")).toEqual([
    { podSelector, namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "system" } } },
    { podSelector, namespaceSelector: all },
    { namespaceSelector: all },
  ]);
});
