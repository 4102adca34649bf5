/** ProxyPolicies as `proxyctl convert` writes them, and the notes about what they do differently. */

/** An entry of `spec.traffic.rateLimit.local`. */
export interface Entry {
  readonly name?: string;
  readonly requests?: number;
  readonly tokens?: number;
  readonly concurrent?: number;
  readonly unit?: string;
  readonly every?: number;
  readonly window?: "Calendar";
  readonly burst?: number;
  readonly key?: string;
  readonly when?: string;
  readonly cost?: string;
  readonly bucket?: string;
  readonly shareAcrossReplicas?: true;
  readonly mode?: "Shadow";
}

/** A target of a policy. */
export interface Target {
  readonly group: "gateway.networking.k8s.io";
  readonly kind: string;
  readonly name: string;
  readonly sectionName?: string;
}

/** A ProxyPolicy. */
export interface Policy {
  readonly apiVersion: "gatewayproxy.dev/v1alpha1";
  readonly kind: "ProxyPolicy";
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: {
    readonly targetRefs: readonly Target[];
    readonly traffic: { readonly rateLimit: { readonly local: readonly Entry[] } };
  };
}

/** A difference between a policy and the object that it was made from. */
export interface Note {
  /** `left out`: a limit that the policy does not have. `differs`: one that behaves differently. */
  readonly kind: "left out" | "differs";
  /** The object, such as `Ingress default/shop`. */
  readonly object: string;
  /** The field or annotation. */
  readonly field: string;
  readonly message: string;
}

/** The policies of one object, and what is different in them. */
export interface Converted {
  readonly policies: readonly Policy[];
  readonly notes: readonly Note[];
}

/** Name and namespace of an object. */
export interface ObjectName {
  readonly name: string;
  readonly namespace?: string | undefined;
}

/** The maxima of the API (`spec.targetRefs`, `spec.traffic.rateLimit.local`). */
const [maxTargets, maxEntries] = [16, 16];

/**
 * Returns policies for all entries at all targets: several if there are more than one may have. Entries that share a
 * counter over targets need a bucket.
 */
export function policiesOf(
  { name, namespace }: ObjectName,
  targets: readonly Target[],
  entries: readonly Entry[],
): readonly Policy[] {
  const parts = chunks(targets, maxTargets).flatMap((targetRefs) =>
    chunks(entries, maxEntries).map((local) => ({ targetRefs, local })),
  );
  return parts.map(({ targetRefs, local }, at) => ({
    apiVersion: "gatewayproxy.dev/v1alpha1",
    kind: "ProxyPolicy",
    metadata: {
      name: at === 0 ? `${name}-limits` : `${name}-limits-${at + 1}`,
      ...(namespace !== undefined && { namespace }),
    },
    spec: { targetRefs, traffic: { rateLimit: { local } } },
  }));
}

function chunks<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) => items.slice(at * size, (at + 1) * size));
}

/** Returns a CEL string literal. JSON's escapes are a part of CEL's. */
export function celString(text: string): string {
  return JSON.stringify(text);
}

/**
 * Returns a CEL condition for a client address in a range: true for a range of all addresses. Undefined if a condition
 * cannot express it: there is no function for ranges, so only whole bytes of IPv4, and single addresses, can be
 * compared.
 */
export function inRange(cidr: string): string | undefined {
  const [address = "", length] = cidr.split("/");
  const isIpv4 = /^(?:\d{1,3}\.){3}\d{1,3}$/.test(address);
  if (!isIpv4 && !/^[\da-f:]+$/i.test(address)) return undefined;
  const bits = length === undefined ? (isIpv4 ? 32 : 128) : Number(length);
  if (bits === 0) return "true";
  if (bits === (isIpv4 ? 32 : 128)) return `source.exactAddress == ${celString(address.toLowerCase())}`;
  if (!isIpv4 || bits % 8 !== 0) return undefined;
  const prefix = address.split(".").slice(0, bits / 8);
  return `source.exactAddress.startsWith(${celString(`${prefix.join(".")}.`)})`;
}
