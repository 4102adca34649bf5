/**
 * Translates `spec.traffic.authentication` of a policy: reads its key sets and API keys, and reports what is missing. A
 * credential that cannot be read is one that no request has, so an error never opens a route.
 */
import { hash } from "node:crypto";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { isLabelKey } from "../../api/authentication.ts";
import type { FieldPath } from "../../api/issue.ts";
import type { Authentication as AuthenticationSpec, ProxyPolicy } from "../../api/proxy-policy.ts";
import { renderKey } from "../../api/resource.ts";
import { type Secret, secretValue } from "../../api/secret.ts";
import type { ApiKey, Authentication, KeySource, TokenIssuer } from "../../ir/authentication.ts";
import { readKeySet } from "../../authentication/json-web-keys.ts";
import type { TranslationContext } from "../context.ts";
import { nameKey } from "../index/object-names.ts";
import { readConfigMap, readSecret } from "../reference/resolution.ts";
import { isSelectionRead, maxSelections, selectedSecrets } from "../reference/selected-secrets.ts";
import type { Finding } from "../status/finding.ts";

/** The authentication of a policy, without a target. */
export interface AuthenticationState {
  readonly authentication: Omit<Authentication, "target">;
  /** Missing and malformed objects. */
  readonly findings: readonly Finding<"Invalid">[];
  /** Key sets that workers read from URLs. */
  readonly keySets: number;
}

const basePath = ["spec", "traffic", "authentication"] as const;

/** Keys of one Secret, and of all Secrets of a policy. */
const [maxKeysOfSecret, maxKeysOfPolicy] = [16, 4_096];
/** Maximum length of a key in characters. */
const maxKeyLength = 1_024;
/** Annotations that expressions can read: short ones. Others hold copies of whole objects. */
const [maxAnnotations, maxAnnotationLength] = [32, 256];

/** Returns undefined for a policy without authentication. */
export function translateAuthentication(
  context: TranslationContext,
  policy: ProxyPolicy,
): AuthenticationState | undefined {
  const { authentication: spec } = policy.spec.traffic;
  if (spec === undefined) return undefined;
  const findings: Finding<"Invalid">[] = [];
  const report: Report = (message, ...path) =>
    findings.push({ reason: "Invalid", message, path: [...basePath, ...path] });
  const issuers = (spec.jwt ?? []).map(({ issuer, audiences, jwks }, index): TokenIssuer => {
    const keys = keySourceOf(context, policy, jwks, (message, ...path) =>
      report(message, "jwt", index, "jwks", ...path),
    );
    return { issuer, ...(audiences !== undefined && { audiences }), keys };
  });
  const { mode, apiKeys, forward } = spec;
  return {
    authentication: {
      policy: nameKey(policy),
      mode,
      issuers,
      ...(apiKeys !== undefined && {
        apiKeys: {
          from: apiKeys.from.map(({ header, prefix }) => ({
            header: header.toLowerCase(),
            ...(prefix !== undefined && { prefix }),
          })),
          keys: keysOf(context, policy, apiKeys, report),
        },
      }),
      forward,
    },
    findings,
    keySets: issuers.filter(({ keys }) => keys.kind === "uri").length,
  };
}

type Report = (message: string, ...path: FieldPath) => void;

function keySourceOf(
  context: TranslationContext,
  policy: ProxyPolicy,
  { uri, configMapRef, inline }: NonNullable<AuthenticationSpec["jwt"]>[number]["jwks"],
  report: Report,
): KeySource {
  if (uri !== undefined) {
    const { hostname, port, protocol } = new URL(uri);
    const defaultPort = protocol === "https:" ? 443 : 80;
    const denial = context.addressDenial(
      hostname.replace(/^\[(.*)\]$/, "$1"),
      port === "" ? defaultPort : Number(port),
    );
    if (denial === undefined) return { kind: "uri", uri };
    report(`${uri} ${denial}`, "uri");
    return { kind: "none" };
  }
  if (configMapRef !== undefined) {
    const { namespace } = policy.metadata;
    const resolution = readConfigMap(context, namespace, configMapRef.name, context.credentials.keySet, "Invalid");
    if (resolution.kind !== "resolved") report(resolution.message, "configMapRef");
    return resolution.kind === "unresolved" ? { kind: "none" } : { kind: "keys", keys: resolution.value.keys };
  }
  const result = readKeySet(inline ?? "");
  if (result.kind === "malformed") report(`the key set ${result.error}`, "inline");
  else for (const message of result.leftOut) report(`the key set is used without a key: ${message}`, "inline");
  return result.kind === "read" ? { kind: "keys", keys: result.keys } : { kind: "none" };
}

function keysOf(
  context: TranslationContext,
  policy: ProxyPolicy,
  { secretRefs = [], secretSelector }: NonNullable<AuthenticationSpec["apiKeys"]>,
  report: Report,
): readonly ApiKey[] {
  const secrets = new Map<string, Secret>();
  const { namespace } = policy.metadata;
  secretRefs.forEach(({ name }, index) => {
    const read = (secret: Secret) => ({ kind: "read", value: secret }) as const;
    const resolution = readSecret(context, namespace, name, read, "Invalid");
    if (resolution.kind === "unresolved") report(resolution.message, "apiKeys", "secretRefs", index);
    else secrets.set(name, resolution.value);
  });
  if (secretSelector !== undefined) {
    const path = ["apiKeys", "secretSelector", "matchLabels"];
    for (const key of Object.keys(secretSelector.matchLabels)) {
      if (!isLabelKey(key)) report(`${JSON.stringify(key.slice(0, 64))} is no key of a label`, ...path);
    }
    const selected = selectedSecrets(context.index.resources, policy);
    for (const secret of selected) secrets.set(secret.metadata.name, secret);
    if (!isSelectionRead(context.index.resources, policy)) {
      report(
        `namespace ${namespace} has more than ${maxSelections} selectors, and the Secrets of this one are not read`,
        ...path,
      );
    } else if (context.crowded.has(namespace)) {
      report(
        `Secrets of namespace ${namespace} with these labels may be missing: it has more or larger ones than are read`,
        ...path,
      );
    } else if (selected.length === 0) {
      report(`no Secret of namespace ${namespace} has these labels`, ...path);
    }
  }
  return distinctKeys(secrets, report);
}

/** A key that several Secrets hold belongs to the first one by name, so that it has one identity. */
function distinctKeys(secrets: ReadonlyMap<string, Secret>, report: Report): readonly ApiKey[] {
  const byHash = new Map<string, ApiKey>();
  let leftOut = 0;
  for (const [, secret] of [...secrets].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const key = renderKey("Secret", secret.metadata.namespace, secret.metadata.name);
    const { keys, errors } = keysIn(secret);
    for (const error of errors) report(`${key} ${error}`, "apiKeys");
    for (const apiKey of keys) {
      const known = byHash.get(apiKey.sha256.secret);
      if (known === undefined && byHash.size >= maxKeysOfPolicy) {
        leftOut += 1;
      } else if (known === undefined) {
        byHash.set(apiKey.sha256.secret, apiKey);
      } else if (known.source.name !== apiKey.source.name) {
        report(`${key} holds a key of Secret ${known.source.namespace}/${known.source.name}, which has it`, "apiKeys");
      }
    }
  }
  if (leftOut > 0) report(`${leftOut} keys are not used, accepted are at most ${maxKeysOfPolicy}`, "apiKeys");
  return [...byHash.values()];
}

const dataKey = /^apiKey(?:[-._].*)?$/;

/** Returns the keys of a Secret, or what is wrong with it. An unchanged Secret is the same object. */
const keysIn = memoised((secret: Secret): { readonly keys: readonly ApiKey[]; readonly errors: readonly string[] } => {
  const { namespace, name } = secret.metadata;
  const names = [...new Set([...Object.keys(secret.data), ...Object.keys(secret.stringData)])].sort();
  const own = names.filter((each) => dataKey.test(each));
  if (own.length === 0) return { keys: [], errors: ["has no value apiKey, and none whose name begins with apiKey-"] };
  const errors: string[] = [];
  if (own.length > maxKeysOfSecret) errors.push(`has ${own.length} keys, the first ${maxKeysOfSecret} are used`);
  const attributes = attributesOf(secret);
  const keys = own.slice(0, maxKeysOfSecret).flatMap((each): readonly ApiKey[] => {
    const value = secretValue(secret, each) ?? "";
    if (value === "" || value.length > maxKeyLength || !/^[\x21-\x7e]+$/.test(value)) {
      errors.push(`has a value ${each} that is not 1 to ${maxKeyLength} visible ASCII characters`);
      return [];
    }
    return [{ sha256: { secret: hash("sha256", value, "base64") }, source: { namespace, name }, attributes }];
  });
  return { keys, errors };
});

/** Returns what expressions see of a Secret: labels have precedence over annotations, and its name over both. */
export function attributesOf({ metadata }: Secret): Readonly<Record<string, string>> {
  const { namespace, name, labels, annotations } = metadata;
  const short = Object.entries(annotations)
    // `kubectl apply` keeps the whole Secret in an annotation.
    .filter(([key, value]) => value.length <= maxAnnotationLength && !key.startsWith("kubectl.kubernetes.io/"))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .slice(0, maxAnnotations);
  return { ...Object.fromEntries(short), ...labels, name, namespace };
}
