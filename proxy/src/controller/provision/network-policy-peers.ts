/** The peers of a NetworkPolicy (`NetworkPolicyPeer` of Kubernetes), as a setting. */
import type { SettingKind } from "@gatewayproxy/runtime/setting-kinds";
import { isObject, type KubeObject } from "../../kube/object.ts";

const selectors = ["podSelector", "namespaceSelector", "ipBlock"];

/** Accepts a list in JSON. An empty list would permit all clients. */
export const networkPolicyPeers: SettingKind<readonly KubeObject[]> = {
  placeholder: "JSON",
  accepted: `a list of peers of a NetworkPolicy in JSON, each with some of ${selectors.join(", ")}`,
  parse(text) {
    const peers = parsed(text);
    return Array.isArray(peers) && peers.length > 0 && peers.every(isPeer) ? peers : undefined;
  },
  render: (peers) => JSON.stringify(peers),
};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isPeer(value: unknown): value is KubeObject {
  if (!isObject(value)) return false;
  const names = Object.keys(value);
  return names.length > 0 && names.every((name) => selectors.includes(name) && isObject(value[name]));
}

/**
 * Returns the peers for a policy in any namespace: the pods of a `podSelector` alone are those of `namespace`, and not
 * of the namespace of the policy.
 */
export function peersOf(peers: readonly KubeObject[], namespace: string): readonly KubeObject[] {
  const namespaceSelector = { matchLabels: { "kubernetes.io/metadata.name": namespace } };
  return peers.map((peer) =>
    "podSelector" in peer && !("namespaceSelector" in peer) ? { ...peer, namespaceSelector } : peer,
  );
}
