/** Picks the target of a request, and responds where it is not a backend. */
import { rewritePath } from "../../filters/url-rewrite.ts";
import { generatesNothing } from "../../llm/charging.ts";
import { clientApi } from "../../llm/client-api.ts";
import { priceOf } from "../../llm/price.ts";
import { ProviderChoice } from "../attempts/provider-choice.ts";
import { backendsOf, type BackendTarget, type CompiledTarget } from "../compiled-rule.ts";
import { invalidBackend, modelNotFound, noReadyEndpoint, providersOutOfQuota } from "../local-replies.ts";
import type { Stage, StagedRequest } from "../stage.ts";
import { redirectTo } from "./redirect.ts";

/**
 * Picks by the model if targets list theirs, and by weight (Gateway API `BackendRef.weight`), and of a Backend with
 * several providers the first one to try. Responds with 404 if no target offers the model.
 */
export const pickTarget: Stage = {
  name: "pick target",
  run(request) {
    const { rule, llm, record } = request;
    const clientModel = llm?.requestModel;
    if (llm !== undefined) record.clientModel = clientModel;
    const picked = rule.models === undefined ? rule.pick() : rule.models.pick(clientModel);
    if (rule.models !== undefined && picked === undefined) return request.reply(modelNotFound(apiOf(request)));
    const target = picked?.kind === "providers" ? pickProvider(request, picked) : picked;
    request.target = target;
    const ai = target?.kind === "backend" ? target.ai : undefined;
    // The model that the Backend prescribes, or the name of its provider for it, takes the place of the client's.
    record.requestModel = ai?.model ?? clientModel;
    record.isListedModel = ai?.models !== undefined && ai.model !== undefined;
    // Of several providers it is that of the first in the list, so that a limit by model counts a request alike,
    // whichever responds.
    const counted = picked?.kind === "providers" ? picked.providers[0]?.target.ai : ai;
    const isPriced = rule.requiresPrice ? isPricedAt(request, picked) : undefined;
    if (llm !== undefined) request.llm = { ...llm, clientModel, requestModel: counted?.model ?? clientModel, isPriced };
    return "continue";
  },
};

function apiOf({ rule, downstream: { head } }: StagedRequest): ReturnType<typeof clientApi> {
  return clientApi(head.path, head.rawHeaders, rule.models?.provider);
}

/**
 * Whether the backend has a price for the model; undefined for a request that generates nothing, and for one that no
 * backend gets. All of several providers must have one, since a request may move to any of them.
 */
function isPricedAt(request: StagedRequest, picked: CompiledTarget | undefined): boolean | undefined {
  const targets = picked === undefined ? [] : backendsOf(picked);
  if (!targets.some(({ filters }) => mayGenerate(request, filters.path))) return undefined;
  const model = request.llm?.requestModel;
  return targets.every(({ ai }) => priceOf(ai, model) !== undefined);
}

/** Whether a response may use tokens. @param rewrite of the path that the backend gets. */
export function mayGenerate(request: StagedRequest, rewrite: BackendTarget["filters"]["path"]): boolean {
  const { upgrade } = request.downstream;
  if (upgrade !== undefined) return true;
  return request.takeBody() !== undefined && !generatesNothing(backendPath(request, rewrite));
}

/** Returns the path that the backend gets. */
export function backendPath(request: StagedRequest, rewrite: BackendTarget["filters"]["path"]): string {
  const { head } = request.downstream;
  return rewrite === undefined ? head.path : rewritePath(rewrite, request.match, head.path);
}

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
    const hasEndpoint = target.backend.size > 0 || providers?.hasNext === true;
    return hasEndpoint ? "continue" : request.reply(noReadyEndpoint);
  },
};
