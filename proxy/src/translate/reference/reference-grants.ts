/** Whether an object may refer to one of another namespace (Gateway API `ReferenceGrant`). */
import type { Backend } from "../../api/backend.ts";
import type { BackendTlsPolicy } from "../../api/backend-tls-policy.ts";
import type { Gateway } from "../../api/gateway.ts";
import type { ListenerSet } from "../../api/listener-set.ts";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import type { ReferenceGrant } from "../../api/reference-grant.ts";
import { type AnyRoute, kinds } from "../../api/resource.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";

/** The end from which a reference is made (Gateway API `ReferenceGrantFrom`). The core group is empty. */
export interface Referrer {
  readonly group: string;
  readonly kind: string;
  readonly namespace: string;
}

/** An object of a kind that can refer to others. */
export type ReferringObject = Gateway | ListenerSet | AnyRoute | BackendTlsPolicy | Backend | ProxyPolicy;

/** Returns the group, kind and namespace of an object, by which grants select it. */
export function referrerOf({ kind, metadata: { namespace } }: ReferringObject): Referrer {
  return { group: kinds[kind].group, kind, namespace };
}

/** The object that a reference names (Gateway API `ReferenceGrantTo`). */
export interface Referent extends Referrer {
  readonly name: string;
}

/** True within a namespace; across namespaces, only if a grant in the referent's namespace permits it. */
export type IsPermitted = (from: Referrer, to: Referent) => boolean;

/**
 * Returns the same function for the same list, which must not change. A grant that is being deleted permits nothing: a
 * finalizer may keep it for long.
 */
export const referencePermissions: (grants: readonly ReferenceGrant[]) => IsPermitted = memoised((grants) => {
  const lasting = grants.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const byNamespace = Map.groupBy(lasting, ({ metadata }) => metadata.namespace);
  /** By namespace and referrer: a namespace may have thousands of grants, and a route thousands of references. */
  const granted = new Map<string, Granted>();
  return (from, to) => {
    if (from.namespace === to.namespace) return true;
    const there = byNamespace.get(to.namespace);
    if (there === undefined) return false;
    const key = JSON.stringify([to.namespace, from.group, from.kind, from.namespace]);
    const known = granted.get(key) ?? grantedTo(from, there);
    granted.set(key, known);
    const kind = kindKey(to);
    return known.kinds.has(kind) || known.objects.has(`${kind}/${to.name}`);
  };
});

/** The permissions of a referrer. */
interface Granted {
  /** Kinds of which it may refer to every object, by `kindKey`. */
  readonly kinds: ReadonlySet<string>;
  /** Single objects: the key of the kind, a slash and the name. */
  readonly objects: ReadonlySet<string>;
}

function grantedTo(from: Referrer, grants: readonly ReferenceGrant[]): Granted {
  const kinds = new Set<string>();
  const objects = new Set<string>();
  for (const { spec } of grants) {
    const isFrom = spec.from.some(
      ({ group, kind, namespace }) => group === from.group && kind === from.kind && namespace === from.namespace,
    );
    if (!isFrom) continue;
    for (const to of spec.to) {
      if (to.name === undefined) kinds.add(kindKey(to));
      else objects.add(`${kindKey(to)}/${to.name}`);
    }
  }
  return { kinds, objects };
}

/** Returns a unique key, since neither a group nor a kind contains a slash. */
function kindKey({ group, kind }: Pick<Referent, "group" | "kind">): string {
  return `${group}/${kind}`;
}
