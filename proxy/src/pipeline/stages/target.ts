/** Picks the target of a request, and responds where it is not a backend. */
import { ProviderChoice } from "../attempts/provider-choice.ts";
import type { CompiledTarget } from "../compiled-rule.ts";
import { invalidBackend, noReadyEndpoint, providersOutOfQuota } from "../local-replies.ts";
import type { Stage, StagedRequest } from "../stage.ts";
import { redirectTo } from "./redirect.ts";

/** Picks by weight (Gateway API `BackendRef.weight`), and of a Backend with several providers the first one to try. */
export const pickTarget: Stage = {
  name: "pick target",
  run(request) {
    const picked = request.rule.pick();
    request.target = picked?.kind === "providers" ? pickProvider(request, picked) : picked;
    return "continue";
  },
};

function pickProvider(
  request: StagedRequest,
  list: Extract<CompiledTarget, { readonly kind: "providers" }>,
): CompiledTarget {
  const { clock, random } = request.services;
  const client = request.record.identity ?? request.client;
  request.providers = new ProviderChoice({ clock, random, list, client });
  const first = request.providers.next();
  return first === undefined ? list : { kind: "backend", weight: list.weight, ...first.target };
}

/** Responds if the target is invalid, redirects, has no endpoint, or all of its providers are out of quota. */
export const requireBackend: Stage = {
  name: "require backend",
  run(request) {
    const { target, record, providers } = request;
    if (target === undefined || target.kind === "invalid") return request.reply(invalidBackend);
    if (target.kind === "redirect") return redirectTo(request, target);
    record.backend = providers?.list.backend.backend.key ?? target.backend.backend.key;
    if (target.kind === "providers") return request.reply(providersOutOfQuota(providers?.resetMs ?? 0));
    const hasEndpoint = target.backend.pools.length > 0 || providers?.hasNext === true;
    return hasEndpoint ? "continue" : request.reply(noReadyEndpoint);
  },
};
