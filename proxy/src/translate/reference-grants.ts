/** Whether an object may refer to one of another namespace (Gateway API `ReferenceGrant`). */
import type { ReferenceGrant } from "../api/reference-grant.ts";

export interface Referrer {
  readonly group: string;
  readonly kind: string;
  readonly namespace: string;
}

export interface Referent extends Referrer {
  readonly name: string;
}

/** Within a namespace always; across namespaces only where a grant in the referent's namespace says so. */
export type IsPermitted = (from: Referrer, to: Referent) => boolean;

export function referencePermissions(grants: readonly ReferenceGrant[]): IsPermitted {
  const byNamespace = Map.groupBy(grants, ({ metadata }) => metadata.namespace);
  return (from, to) => {
    if (from.namespace === to.namespace) return true;
    const there = byNamespace.get(to.namespace) ?? [];
    return there.some(({ spec }) => {
      const isFrom = spec.from.some(
        ({ group, kind, namespace }) => group === from.group && kind === from.kind && namespace === from.namespace,
      );
      return (
        isFrom &&
        spec.to.some(
          ({ group, kind, name }) => group === to.group && kind === to.kind && (name === undefined || name === to.name),
        )
      );
    });
  };
}
