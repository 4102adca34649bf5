/**
 * Resolves Backends with a list of providers (`spec.ai.providers`). Each provider is a Backend of the same namespace,
 * so a list needs no ReferenceGrant, and reads no Secret that its Backends do not name. An invalid provider is left
 * out, and the others are used.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Backend as BackendResource, FailoverSpec } from "../../api/backend.ts";
import { durationMs } from "../../api/duration.ts";
import type { FieldPath } from "../../api/issue.ts";
import type { AiBackend, Backend, Failover, ProviderRef } from "../../ir/snapshot.ts";
import type { TranslationContext } from "../context.ts";
import { nameKey, namesIn } from "../index/object-names.ts";
import type { FindingOf } from "../status/findings-table.ts";
import { type BackendState, identity } from "./backend-resource.ts";

/** Whether a Backend has a list of providers. */
export function hasProviders({ spec }: BackendResource): boolean {
  return spec.ai?.providers !== undefined;
}

/**
 * The API that clients use with each provider. Bodies pass unchanged, so a request of one API can only move to a
 * provider with the same one.
 */
const apis: Readonly<Record<AiBackend["provider"], string>> = {
  openai: "OpenAI",
  azure: "OpenAI",
  openaiCompatible: "OpenAI",
  anthropic: "Anthropic",
  gemini: "Gemini",
  bedrock: "Bedrock",
};

/** A provider of the list that can be used. */
interface Usable {
  readonly ref: ProviderRef;
  readonly backend: Backend;
}

type ProviderFinding = FindingOf<"Backend">;

/** Resolves a Backend with a list of providers. @param states of the Backends without one, by `namespace/name`. */
export function resolveProviders(
  context: TranslationContext,
  resource: BackendResource,
  states: ReadonlyMap<string, BackendState>,
): BackendState {
  const { providers = [], failover } = resource.spec.ai ?? {};
  const findings: ProviderFinding[] = [];
  const usable: Usable[] = [];
  providers.forEach(({ backendRef: { name }, priority = 0, weight = 1 }, index) => {
    const path: FieldPath = ["spec", "ai", "providers", index, "backendRef"];
    const found = resolveProvider(context, resource, name, states, usable[0]?.backend);
    if (found.kind === "invalid") findings.push({ ...found.finding, path });
    else usable.push({ ref: { backend: found.backend.key, priority, weight }, backend: found.backend });
  });
  const backends = usable.map(({ backend }) => backend);
  const [first] = usable;
  if (first === undefined) {
    const message = `Backend ${nameKey(resource)} is invalid: it has no valid provider`;
    return {
      resource,
      resolution: { kind: "unresolved", reason: "BackendNotFound", message },
      providers: [],
      findings,
    };
  }
  const value: Backend = {
    ...identity(resource),
    endpoints: [],
    failover: failoverOf(
      usable.map(({ ref }) => ref),
      failover,
    ),
  };
  return { resource, resolution: { kind: "resolved", value }, providers: backends, findings };
}

type ProviderResolution =
  | { readonly kind: "usable"; readonly backend: Backend }
  | { readonly kind: "invalid"; readonly finding: Omit<ProviderFinding, "path"> };

/** @param first the first valid provider of the list, whose API the others must have. */
function resolveProvider(
  { index, hints }: TranslationContext,
  { metadata: { namespace } }: BackendResource,
  name: string,
  states: ReadonlyMap<string, BackendState>,
  first: Backend | undefined,
): ProviderResolution {
  const key = objectKey({ namespace, name });
  const invalid = (reason: ProviderFinding["reason"], message: string): ProviderResolution => ({
    kind: "invalid",
    finding: { reason, message, ...(!index.backends.has(key) && { code: "ReferentNotFound" }) },
  });
  const resource = index.backends.get(key);
  if (resource === undefined) {
    const hint = hints.of(namespace, "Backend", key, namesIn(namespace, index.backends));
    return invalid("InvalidProvider", `Backend ${key} does not exist${hint}`);
  }
  const accepted = "accepted is a Backend with ai.provider";
  if (hasProviders(resource)) return invalid("InvalidProvider", `Backend ${key} has providers itself, ${accepted}`);
  if (resource.spec.ai === undefined) {
    return invalid("InvalidProvider", `Backend ${key} is no LLM provider, ${accepted}`);
  }
  // The rule picks the Backend with the list before it picks the provider, so it would not apply the models of one
  // provider.
  if (resource.spec.ai.models !== undefined) {
    return invalid(
      "InvalidProvider",
      `Backend ${key} has models, accepted is a Backend with ai.provider and without models`,
    );
  }
  const resolution = states.get(key)?.resolution;
  if (resolution === undefined || resolution.kind === "unresolved") {
    return invalid("InvalidProvider", resolution?.message ?? `Backend ${key} is invalid`);
  }
  const backend = resolution.value;
  const [api, other] = [apiOf(backend), first === undefined ? undefined : apiOf(first)];
  if (first === undefined || api === other) return { kind: "usable", backend };
  const message = `Backend ${key} has the API of ${api}, and ${first.namespace}/${first.name}, the first provider, that of ${other}; accepted are providers with the same API`;
  return invalid("IncompatibleProviders", message);
}

function apiOf({ ai }: Backend): string {
  return ai === undefined ? "" : apis[ai.provider];
}

function failoverOf(providers: readonly ProviderRef[], spec: FailoverSpec | undefined): Failover {
  return {
    providers,
    ...(spec?.firstByteTimeout !== undefined && { firstByteTimeoutMs: durationMs(spec.firstByteTimeout) }),
    ...(spec?.streamIdleTimeout !== undefined && { streamIdleTimeoutMs: durationMs(spec.streamIdleTimeout) }),
  };
}
