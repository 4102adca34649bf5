/**
 * The model that the target of a request names, for the APIs that name it there: in the path (Gemini, Bedrock, Azure
 * OpenAI), or in the query (the realtime sessions of OpenAI and Azure).
 *
 * A path or query that servers could read differently names none: what depends on the model then treats the request as
 * one without a model.
 */
import { modelOfPath } from "./model-endpoints.ts";
import { decodedPath, pathnameOf } from "./provider-path.ts";
import type { LlmRequest } from "./llm-request.ts";

/** Names of the query parameters of realtime sessions, in lower case. ASP.NET ignores case. */
const parameterNames: ReadonlySet<string> = new Set(["model", "deployment"]);

/** Returns the model; `twoModels` if the target names several. @param path with its query, as the client sent it. */
export function modelOfTarget(path: string): { readonly name: string | undefined } | "twoModels" {
  if (!isRealtime(path)) return { name: modelOfPath(path) };
  const names = new Set(parametersOf(path).flatMap(({ name, value }) => (isModel(name) ? [value] : [])));
  if (names.size > 1) return "twoModels";
  const [name] = names;
  return { name: name === "" ? undefined : name };
}

/**
 * Returns what a request is for, by its body and its target; `twoModels` if they name different models. The path of
 * Gemini leaves out the `models/` of a body.
 *
 * @param path with its query, as the client sent it.
 */
export function withTargetModel(request: LlmRequest, path: string): LlmRequest | "twoModels" {
  const target = modelOfTarget(path);
  if (target === "twoModels") return "twoModels";
  const { name } = target;
  const { requestModel } = request;
  if (name === undefined || name === requestModel) return request;
  if (requestModel === undefined || requestModel === `models/${name}`) return { ...request, requestModel: name };
  return "twoModels";
}

/** Returns the target of a realtime session with `model` as its model, and any other target unchanged. */
export function withRealtimeModel(path: string, model: string): string {
  if (!isRealtime(path)) return path;
  const start = pathnameOf(path);
  const query = parametersOf(path).map(({ text, name }) =>
    isModel(name) ? `${text.split("=", 1)[0] ?? ""}=${encodeURIComponent(model)}` : text,
  );
  return query.length === 0 ? path : `${start}?${query.join("&")}`;
}

function isRealtime(path: string): boolean {
  const { text, isDecoded } = decodedPath(path);
  return isDecoded && /\/realtime\/?$/i.test(text);
}

function isModel(name: string): boolean {
  return parameterNames.has(name);
}

interface Parameter {
  readonly text: string;
  /** Decoded, in lower case. */
  readonly name: string;
  /** Decoded. */
  readonly value: string;
}

/** Some servers separate parameters by `;` too. */
function parametersOf(path: string): readonly Parameter[] {
  const query = path.slice(pathnameOf(path).length + 1);
  if (query === "") return [];
  return query.split(/[&;]/).map((text) => {
    const equals = text.indexOf("=");
    const [name, value] = equals === -1 ? [text, ""] : [text.slice(0, equals), text.slice(equals + 1)];
    return { text, name: formDecoded(name).toLowerCase(), value: formDecoded(value) };
  });
}

function formDecoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
}
