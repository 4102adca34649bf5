/** Responds to a request for the list of models, or for one of them, with what the backends of the rule list. */
import { clientApi, modelList, modelObject, modelQuery } from "../../llm/client-api.ts";
import { modelNotFound } from "../local-replies.ts";
import { outgoingOf, type Stage, type StagedRequest } from "../stage.ts";

export const listModels: Stage = {
  name: "list models",
  run(request) {
    const { target, request: outgoing } = outgoingOf(request);
    const query = modelQuery(outgoing.method, `${target.ai?.pathPrefix ?? ""}${outgoing.path}`);
    if (query === undefined) return "continue";
    // No backend gets the request.
    request.record.backend = undefined;
    const { listed = [], provider } = request.rule.models ?? {};
    const { path, rawHeaders } = request.downstream.head;
    const api = clientApi(path, rawHeaders, provider);
    if (query.name === undefined) return respond(request, modelList(api, listed));
    const found = listed.find(({ name }) => name === query.name);
    return found === undefined ? request.reply(modelNotFound(api)) : respond(request, modelObject(api, found));
  },
};

function respond(request: StagedRequest, body: object): "responded" {
  const headers = ["content-type", "application/json"];
  request.reservation?.setHeaders(headers);
  return request.respondWithCors(200, headers, JSON.stringify(body));
}
