/**
 * Dumps the authentication of policies as enforced, with the state of key sets. Keys, and hashes of keys, are not part
 * of it.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { redactPath } from "@gatewayproxy/runtime/redaction";
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import type { ApiKeys, Authentication, KeySource, TokenIssuer } from "../../ir/authentication.ts";
import type { KeySetState } from "../../ir/key-set-state.ts";
import type { Snapshot } from "../../ir/snapshot.ts";

type DumpedAuthentication = NonNullable<DumpedPolicy["authentication"]>;
type DumpedKeys = NonNullable<DumpedAuthentication["jwt"]>[number]["keys"];

/** Returns the authentication of each policy by `namespace/name`; it is the same at all of its targets. */
export function authenticationByPolicy({ binds }: Pick<Snapshot, "binds">): ReadonlyMap<string, Authentication> {
  const rules = binds.flatMap(({ listeners }) =>
    listeners.flatMap(({ routes }) => routes.flatMap(({ rules: all }) => all)),
  );
  return new Map(rules.flatMap((rule) => (rule.authentication ?? []).map((each) => [each.policy, each] as const)));
}

/** @param states the key sets of all workers. */
export function dumpAuthentication(
  { mode, issuers, apiKeys, forward }: Authentication,
  states: readonly KeySetState[],
): DumpedAuthentication {
  return {
    mode,
    forward,
    ...(issuers.length > 0 && { jwt: issuers.map((issuer) => dumpIssuer(issuer, states)) }),
    ...(apiKeys !== undefined && { apiKeys: dumpApiKeys(apiKeys) }),
  };
}

function dumpIssuer({ issuer, audiences, keys }: TokenIssuer, states: readonly KeySetState[]) {
  return { issuer, ...(audiences !== undefined && { audiences: [...audiences] }), keys: dumpKeys(keys, states) };
}

function dumpKeys(source: KeySource, states: readonly KeySetState[]): DumpedKeys {
  if (source.kind === "none") return { source: "configuration", count: 0 };
  if (source.kind === "keys") return { source: "configuration", count: source.keys.length };
  const ofSet = states.filter(({ uri }) => uri === source.uri);
  const counts = ofSet.map(({ keys = 0 }) => keys);
  const readMs = Math.min(...ofSet.map((state) => state.readMs ?? Number.POSITIVE_INFINITY));
  const lastError = ofSet.flatMap((state) => state.lastError ?? []).toSorted((a, b) => b.atMs - a.atMs)[0];
  return {
    source: "uri",
    uri: redactPath(source.uri),
    // Of the worker with fewest, whose tokens are rejected first.
    count: counts.length === 0 ? 0 : Math.min(...counts),
    ...(Number.isFinite(readMs) && { readAt: iso(readMs) }),
    ...(lastError !== undefined && { lastError: { message: lastError.message, at: iso(lastError.atMs) } }),
  };
}

function dumpApiKeys({ from, keys }: ApiKeys): NonNullable<DumpedAuthentication["apiKeys"]> {
  return {
    from: from.map((field) => ({ ...field })),
    count: keys.length,
    secrets: [...new Set(keys.map(({ source }) => objectKey(source)))],
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
