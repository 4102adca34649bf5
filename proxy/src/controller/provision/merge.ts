/**
 * Merges a user's YAML into a generated object, like `kubectl patch` with a strategic merge: maps are merged, null
 * removes a field, lists of named items (containers, ports, variables, volumes) are merged by name, other lists are
 * replaced.
 */
import { isObject, type KubeObject } from "../../kube/object.ts";

/** The field that identifies the items of a list, by the name of the list. Other lists are replaced. */
const listKeys: Readonly<Record<string, string>> = {
  containers: "name",
  initContainers: "name",
  env: "name",
  volumes: "name",
  volumeMounts: "mountPath",
  ports: "port",
  imagePullSecrets: "name",
  topologySpreadConstraints: "topologyKey",
};

/** Returns `base` with `patch` merged into it. Does not change the arguments. */
export function mergeObject(base: KubeObject, patch: KubeObject): KubeObject {
  const merged = new Map(Object.entries(base));
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name);
    else merged.set(name, mergeValue(name, base[name], value));
  }
  return Object.fromEntries(merged);
}

function mergeValue(name: string, base: unknown, patch: unknown): unknown {
  if (isObject(base) && isObject(patch)) return mergeObject(base, patch);
  const key = listKeyOf(name, base, patch);
  if (key === undefined || !Array.isArray(base) || !Array.isArray(patch)) return patch;
  return mergeList(base.filter(isObject), patch.filter(isObject), key);
}

/**
 * Returns the field by which the items of a list are merged; undefined if the list is replaced. Ports of containers are
 * identified by `containerPort`, those of Services by `port`.
 */
export function listKeyOf(name: string, base: unknown, patch: unknown): string | undefined {
  const key = listKeys[name];
  if (key === undefined || !Array.isArray(base) || !Array.isArray(patch)) return undefined;
  const all = [...(base as unknown[]), ...(patch as unknown[])];
  const candidates = name === "ports" ? [key, "containerPort"] : [key];
  return candidates.find((candidate) => all.every((item) => isObject(item) && item[candidate] !== undefined));
}

function mergeList(base: readonly KubeObject[], patch: readonly KubeObject[], key: string): readonly KubeObject[] {
  const patches = new Map(patch.map((item) => [identityOf(item, key), item]));
  const used = new Set<unknown>();
  const merged = base.map((item) => {
    // A port without a protocol in the patch means the port of any protocol.
    const identity = [identityOf(item, key), item[key]].find((each) => patches.has(each));
    const over = identity === undefined ? undefined : patches.get(identity);
    used.add(identity);
    return over === undefined ? item : mergeObject(item, over);
  });
  return [...merged, ...Array.from(patches).flatMap(([identity, item]) => (used.has(identity) ? [] : [item]))];
}

/** A Service may have a port for TCP and for UDP. */
function identityOf(item: KubeObject, key: string): unknown {
  const { protocol } = item;
  return key === "port" && typeof protocol === "string" ? `${String(item[key])}/${protocol}` : item[key];
}
