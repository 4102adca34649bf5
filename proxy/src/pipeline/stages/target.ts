/** Picks the target of a request, and responds where it is not a backend. */
import { clientApi } from "../../llm/client-api.ts";
import { invalidBackend, modelNotFound, noReadyEndpoint } from "../local-replies.ts";
import type { Stage, StagedRequest } from "../stage.ts";
import { redirectTo } from "./redirect.ts";

/**
 * Picks by the model if targets list theirs, and by weight (Gateway API `BackendRef.weight`). Responds with 404 if no target offers
 * the model.
 */
export const pickTarget: Stage = {
  name: "pick target",
  run(request) {
    const { rule, llm, record } = request;
    const clientModel = llm?.requestModel;
    if (llm !== undefined) record.clientModel = clientModel;
    const target = rule.models === undefined ? rule.pick() : rule.models.pick(clientModel);
    if (rule.models !== undefined && target === undefined) return request.reply(modelNotFound(apiOf(request)));
    request.target = target;
    const ai = target?.kind === "backend" ? target.ai : undefined;
    // The model that the Backend prescribes, or the name of its provider for it, takes the place of the client's.
    const requestModel = ai?.model ?? clientModel;
    if (llm !== undefined) request.llm = { ...llm, clientModel, requestModel };
    record.requestModel = requestModel;
    record.isListedModel = ai?.models !== undefined && ai.model !== undefined;
    return "continue";
  },
};

function apiOf({ rule, downstream: { head } }: StagedRequest): ReturnType<typeof clientApi> {
  return clientApi(head.path, head.rawHeaders, rule.models?.provider);
}

/** Responds if the target is invalid, redirects, or has no endpoint. */
export const requireBackend: Stage = {
  name: "require backend",
  run(request) {
    const { target, record } = request;
    if (target === undefined || target.kind === "invalid") return request.reply(invalidBackend);
    if (target.kind === "redirect") return redirectTo(request, target);
    record.backend = target.backend.backend.key;
    return target.backend.pools.length === 0 ? request.reply(noReadyEndpoint) : "continue";
  },
};
