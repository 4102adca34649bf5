/**
 * Which targets have authentication, for policies whose expressions read an identity: where nothing verifies it, the
 * expression never has a value.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import { nameKey } from "../index/object-names.ts";
import type { AnyRouteState } from "../route/routes.ts";
import type { Finding } from "../status/finding.ts";
import { type IdentityKind, identitiesOf, identitiesReadBy } from "./identity-use.ts";

const howToAuthenticate = { jwt: "authentication.jwt", apiKey: "authentication.apiKeys" } as const;

/** The targets of all policies with authentication. */
export class AuthenticatedTargets {
  readonly #routes: ReadonlyMap<string, readonly AnyRouteState[]>;
  /** `jwt Gateway/namespace/name`: sections count as their object, since some request there may have the identity. */
  readonly #known = new Set<string>();

  /** @param routes by `namespace/name`. */
  constructor(policies: readonly ProxyPolicy[], routes: ReadonlyMap<string, readonly AnyRouteState[]>) {
    this.#routes = routes;
    for (const policy of policies) {
      for (const kind of identitiesOf(policy)) {
        for (const target of policy.spec.targetRefs) this.#known.add(`${kind} ${keyOf(policy, target)}`);
      }
    }
  }

  /** Returns a finding for each identity that a policy reads and that no policy verifies at any of its targets. */
  findingsOf(policy: ProxyPolicy): readonly Finding<"Invalid">[] {
    return [...identitiesReadBy(policy)].flatMap((kind): readonly Finding<"Invalid">[] => {
      const missing = policy.spec.targetRefs.findIndex((target) => !this.#isVerified(kind, policy, target));
      const target = policy.spec.targetRefs[missing];
      if (target === undefined) return [];
      const message = `expressions read ${kind}, and no policy with ${howToAuthenticate[kind]} applies to ${keyOf(policy, target)}: they have no value there`;
      return [{ reason: "Invalid", message, path: ["spec", "targetRefs", missing] }];
    });
  }

  #isVerified(kind: IdentityKind, policy: ProxyPolicy, target: ProxyPolicy["spec"]["targetRefs"][number]): boolean {
    if (this.#known.has(`${kind} ${keyOf(policy, target)}`)) return true;
    // An expression of a Gateway sees only what the policies of the Gateway verify.
    if (target.kind === "Gateway") return false;
    const states = this.#routes.get(objectKey({ namespace: policy.metadata.namespace, name: target.name })) ?? [];
    const attachments = states.flatMap(({ parents }) => parents.flatMap((parent) => parent.attachments));
    return attachments.some(({ listener }) => this.#known.has(`${kind} Gateway/${nameKey(listener.gateway)}`));
  }
}

function keyOf({ metadata }: ProxyPolicy, { kind, name }: { readonly kind: string; readonly name: string }): string {
  return `${kind}/${objectKey({ namespace: metadata.namespace, name })}`;
}
