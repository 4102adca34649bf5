/**
 * The API that a client uses, by its request and the provider of its backend. It decides only the form of a local
 * reply, so a wrong guess costs a client no more than an error that its library cannot read.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import { pathnameOf } from "./provider-path.ts";

/** An API with an error object of its own. */
export type ProviderApi = "openai" | "anthropic" | "gemini" | "bedrock";

/** The APIs of providers. */
const apis: Readonly<Record<AiBackend["provider"], ProviderApi>> = {
  openai: "openai",
  azure: "openai",
  openaiCompatible: "openai",
  anthropic: "anthropic",
  gemini: "gemini",
  bedrock: "bedrock",
};

/** Methods of Gemini and Vertex, after the colon in the last segment of a path. */
const geminiMethods: ReadonlySet<string> = new Set([
  ...["generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"],
  ...["generateAnswer", "predict", "serverStreamingPredict", "rawPredict", "streamRawPredict"],
]);
/** Operations of Bedrock: `/model/NAME/converse`. */
const bedrockOperations: ReadonlySet<string> = new Set([
  ...["converse", "converse-stream", "invoke", "invoke-with-response-stream"],
]);
/** Endpoints of OpenAI that applications have, too. */
const openAiEndpoints: ReadonlySet<string> = new Set(["completions", "responses", "embeddings", "moderations"]);

/**
 * Returns the API of a request; undefined if it is unknown.
 *
 * @param provider of its backend; absent if that is no `ai` Backend.
 * @param path as the client sent it; the query is ignored.
 * @param hasAnthropicVersion whether it has the field `anthropic-version`, which clients of that API always send.
 */
export function apiOf(
  provider: AiBackend["provider"] | undefined,
  path: string,
  hasAnthropicVersion: boolean,
): ProviderApi | undefined {
  if (hasAnthropicVersion) return "anthropic";
  const pathname = pathnameOf(path);
  const segments = (pathname.endsWith("/") ? pathname.slice(0, -1) : pathname).split("/").slice(-5);
  const own = apiByOwnEndpoint(segments);
  return own !== undefined || provider === undefined ? own : (apiBySharedEndpoint(segments) ?? apis[provider]);
}

/**
 * Returns the API whose endpoints no other API and hardly an application has.
 *
 * @param segments the last ones of the path.
 */
function apiByOwnEndpoint(segments: readonly string[]): ProviderApi | undefined {
  const last = segments.at(-1) ?? "";
  if (last === "completions" && segments.at(-2) === "chat") return "openai";
  if (geminiMethods.has(last.split(/:|%3a/i).at(-1) ?? "") && /:|%3a/i.test(last)) return "gemini";
  return segments.at(-3) === "model" && bedrockOperations.has(last) ? "bedrock" : undefined;
}

/** Returns the API of endpoints that providers of other APIs serve, too. */
function apiBySharedEndpoint(segments: readonly string[]): ProviderApi | undefined {
  const messages = segments.lastIndexOf("messages");
  // Threads of OpenAI have messages, too.
  if (messages > 0 && segments[messages - 2] !== "threads") return "anthropic";
  const [parent, last] = [segments.at(-2) ?? "", segments.at(-1) ?? ""];
  return openAiEndpoints.has(last) || parent === "images" || parent === "audio" ? "openai" : undefined;
}
