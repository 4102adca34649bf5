/**
 * Sends the credentials of a Backend to its provider, in the provider's own way. The client's credentials are removed:
 * they never travel beside ours.
 *
 * OpenAI and compatible servers: `Authorization: Bearer`. Anthropic: `x-api-key`. Azure OpenAI: `api-key`, or a bearer
 * token. Gemini: `x-goog-api-key`, and `Authorization: Bearer` for its API that is compatible with OpenAI. Bedrock:
 * `Authorization: Bearer` for an API key; otherwise `aws-signature.ts` signs the request.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import { decodedPath } from "./provider-path.ts";

/** Header fields and the path of a request. */
interface Credentialed {
  /** Flat: names and values. */
  readonly headers: readonly string[];
  /** With the query. */
  readonly path: string;
}

/** Returns the request with the credentials of the Backend in the place of the client's; unchanged if it has none. */
export function withCredentials<Request extends Credentialed>(ai: AiBackend, request: Request): Request {
  const { apiKey, signature } = ai;
  if (apiKey === undefined && signature === undefined) return request;
  const headers = request.headers.filter((_, at) => !isCredential(request.headers[at - (at % 2)] ?? ""));
  removeProtocolCredentials(headers);
  const path = withoutParameters(request.path, isCredentialParameter);
  if (apiKey !== undefined) headers.push(...fieldOf(ai, path, apiKey.secret));
  return { ...request, path, headers };
}

/** Returns the path with `api-version` where the client names none (Azure OpenAI, "API version"). */
export function withApiVersion(path: string, apiVersion: string | undefined): string {
  if (apiVersion === undefined || withoutParameters(path, isApiVersion) !== path) return path;
  return `${path}${path.includes("?") ? "&" : "?"}api-version=${apiVersion}`;
}

function fieldOf({ provider, sendsBearer }: AiBackend, path: string, key: string): readonly [string, string] {
  switch (provider) {
    case "anthropic":
      return ["x-api-key", key];
    case "azure":
      return sendsBearer === true ? ["authorization", `Bearer ${key}`] : ["api-key", key];
    case "gemini":
      return isOpenAiPath(path) ? ["authorization", `Bearer ${key}`] : ["x-goog-api-key", key];
    case "openai":
    case "openaiCompatible":
    case "bedrock":
      return ["authorization", `Bearer ${key}`];
  }
}

/** `/v1beta/openai/…` (Gemini API, "OpenAI compatibility"). */
function isOpenAiPath(path: string): boolean {
  return decodedPath(path).text.includes("/openai/");
}

const credentialFields: ReadonlySet<string> = new Set([
  ...["authorization", "x-api-key", "api-key", "x-goog-api-key", "ocp-apim-subscription-key"],
]);

/** All fields of signatures of AWS (`x-amz-date`, `x-amz-security-token`), but not those of Bedrock (`x-amzn-…`). */
function isCredential(name: string): boolean {
  const lower = name.toLowerCase();
  return credentialFields.has(lower) || lower.startsWith("x-amz-");
}

/** Pages in browsers cannot set `Authorization` for a WebSocket (OpenAI, "Realtime API with WebSocket"). */
const protocolCredential = /^\s*openai-insecure-api-key\./i;

/** Removes keys among the protocols that a WebSocket offers. */
function removeProtocolCredentials(headers: string[]): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (headers[at]?.toLowerCase() !== "sec-websocket-protocol") continue;
    const kept = (headers[at + 1] ?? "").split(",").filter((protocol) => !protocolCredential.test(protocol));
    if (kept.length === 0) headers.splice(at, 2);
    else headers[at + 1] = kept.join(",");
  }
}

/**
 * Google: `key`, `access_token` and `oauth_token` (Cloud APIs, "System parameters"). Azure: `api-key`,
 * `subscription-key`. AWS: the parameters of presigned requests.
 */
const isCredentialParameter = (name: string): boolean =>
  /^(?:key|\$?access_token|oauth_token|api[-_]key|subscription-key|x-amz-.*)$/i.test(name);
const isApiVersion = (name: string): boolean => name.toLowerCase() === "api-version";

/** @param isRemoved of the decoded name of a parameter. */
function withoutParameters(path: string, isRemoved: (name: string) => boolean): string {
  const query = path.indexOf("?");
  if (query === -1) return path;
  const parameters = path.slice(query + 1).split("&");
  const kept = parameters.filter((parameter) => !isRemoved(nameOf(parameter)));
  if (kept.length === parameters.length) return path;
  return kept.length === 0 ? path.slice(0, query) : `${path.slice(0, query)}?${kept.join("&")}`;
}

function nameOf(parameter: string): string {
  const [name = ""] = parameter.split("=");
  // Escapes are decoded like those of a query, without its first character.
  return decodedPath(name).text.replaceAll("+", " ").trim();
}
