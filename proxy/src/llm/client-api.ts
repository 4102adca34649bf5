/**
 * The API that a client speaks, and what its provider would send: the error for a model, and the list of models.
 * Clients read both by the SDK of the provider.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import { apiOf, type ProviderApi } from "./provider-api.ts";
import { decodedPath } from "./provider-path.ts";

/** An API with its own form of errors and lists. Azure has the requests of OpenAI, and errors of its own. */
export type ClientApi = ProviderApi | "azure";

/** The error in the model of a request: it names none, or one that is not offered. */
export type ModelError = "missing" | "unknown";

/** A model of a list. */
export interface ListedModel {
  /** The name by which clients request it. */
  readonly name: string;
  readonly provider: AiBackend["provider"];
}

/** A JSON response. */
export interface JsonResponse {
  readonly status: number;
  /** Flat. */
  readonly headers: readonly string[];
  readonly body: string;
}

/**
 * Returns the API of a request, as `apiOf` does; OpenAI's if it is unknown.
 *
 * @param path as the client sent it; the query is ignored.
 * @param provider of all backends that could serve the request; absent: they differ, or are unknown.
 */
export function clientApi(path: string, rawHeaders: readonly string[], provider?: AiBackend["provider"]): ClientApi {
  const names = new Set(rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase()));
  const { text } = decodedPath(path);
  const isOpenAiPath = /\/openai\//i.test(text);
  // Clients of Gemini send its key, or use a path of its beta versions.
  const isGemini = !isOpenAiPath && (names.has("x-goog-api-key") || geminiModels.test(text));
  const assumed = isGemini ? "gemini" : provider === "gemini" && isOpenAiPath ? "openai" : provider;
  const api = apiOf(assumed, path, names.has("anthropic-version")) ?? "openai";
  return api === "openai" && (provider === "azure" || /\/deployments\//i.test(text)) ? "azure" : api;
}

const geminiModels = /\/v\d+(?:alpha|beta)\d*\/models(?:\/[^/]+)?\/?$/i;

/**
 * Returns the error for the model of a request. It repeats nothing of the request.
 *
 * Sources: OpenAI "Error codes", Anthropic "Errors", Azure OpenAI `DeploymentNotFound`, Google AIP-193, Amazon Bedrock
 * "Common errors" with the error type in a field (AWS restJson1).
 */
export function modelError(api: ClientApi, error: ModelError): JsonResponse {
  const isUnknown = error === "unknown";
  const status = isUnknown ? 404 : 400;
  const message = isUnknown ? unknownModel : missingModel;
  const json = (value: object, headers: readonly string[] = []): JsonResponse => ({
    status,
    headers: ["content-type", "application/json", ...headers],
    body: JSON.stringify(value),
  });
  switch (api) {
    case "openai":
      return json({
        error: {
          message,
          type: "invalid_request_error",
          param: "model",
          code: isUnknown ? "model_not_found" : "missing_required_parameter",
        },
      });
    case "azure":
      return json({ error: { code: isUnknown ? "DeploymentNotFound" : "BadRequest", message } });
    case "anthropic":
      return json({ type: "error", error: { type: isUnknown ? "not_found_error" : "invalid_request_error", message } });
    case "gemini":
      return json({ error: { code: status, message, status: isUnknown ? "NOT_FOUND" : "INVALID_ARGUMENT" } });
    case "bedrock":
      return json({ message }, ["x-amzn-errortype", isUnknown ? "ResourceNotFoundException" : "ValidationException"]);
  }
}

const unknownModel = "the model does not exist, or this route does not offer it";
const missingModel = "this route serves requests that name a model, and the request names none";

/** A request for the list, or for one model by its name. */
export interface ModelQuery {
  /** Absent: the list. */
  readonly name: string | undefined;
}

/**
 * Returns what a request for models asks for; undefined for any other request.
 *
 * @param path the path that the provider would receive: `/v1/models`, `/openai/v1/models/NAME`, `/v1beta/models`.
 */
export function modelQuery(method: string, path: string): ModelQuery | undefined {
  if (method !== "GET" && method !== "HEAD") return undefined;
  const { text, isDecoded } = decodedPath(path);
  const found = isDecoded ? modelsPath.exec(text) : null;
  return found === null ? undefined : { name: found[1] };
}

const modelsPath = /^(?:\/[\w.-]+)*?\/(?:v\d+(?:(?:alpha|beta)\d*)?|openai|anthropic)\/models(?:\/(.+?))?\/?$/s;

/** Returns the list of models, in the order given. */
export function modelList(api: ClientApi, models: readonly ListedModel[]): object {
  switch (api) {
    case "openai":
    case "azure":
      return { object: "list", data: models.map(openAiModel) };
    case "gemini":
      return { models: models.map(geminiModel) };
    case "anthropic":
    case "bedrock":
      return {
        data: models.map(anthropicModel),
        has_more: false,
        first_id: models[0]?.name ?? null,
        last_id: models.at(-1)?.name ?? null,
      };
  }
}

/** Returns one model as an object of `modelList`. */
export function modelObject(api: ClientApi, model: ListedModel): object {
  switch (api) {
    case "openai":
    case "azure":
      return openAiModel(model);
    case "gemini":
      return geminiModel(model);
    case "anthropic":
    case "bedrock":
      return anthropicModel(model);
  }
}

/** The gateway does not know the time of creation, which clients require. */
const createdAt = 0;

function openAiModel({ name, provider }: ListedModel) {
  return { id: name, object: "model", created: createdAt, owned_by: provider };
}

function anthropicModel({ name }: ListedModel) {
  return { type: "model", id: name, display_name: name, created_at: new Date(createdAt).toISOString() };
}

function geminiModel({ name }: ListedModel) {
  return { name: `models/${name}`, displayName: name };
}
