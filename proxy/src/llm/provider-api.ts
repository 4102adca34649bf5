/**
 * The API that a client uses, by its request and the provider of its backend. It decides only the form of a local reply, so a
 * wrong guess costs a client no more than an error that its library cannot read.
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

/** Endpoints that no other API has. */
const ownEndpoints: readonly (readonly [ProviderApi, RegExp])[] = [
  ["openai", /\/chat\/completions\/?$/],
  [
    "gemini",
    /(?::|%3A)(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents|generateAnswer|predict|serverStreamingPredict|rawPredict|streamRawPredict)$/i,
  ],
  ["bedrock", /\/model\/[^/]+\/(?:converse|converse-stream|invoke|invoke-with-response-stream)$/],
];

/** Endpoints of providers that serve the API of another one too. */
const sharedEndpoints: readonly (readonly [ProviderApi, RegExp])[] = [
  // Threads of OpenAI have messages, too.
  ["anthropic", /(?<!\/threads\/[^/]*)\/messages(?:\/(?:count_tokens|batches.*))?\/?$/],
  ["openai", /\/(?:completions|responses|embeddings|moderations|images\/\w+|audio\/\w+)\/?$/],
];

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
  const own = apiByPath(ownEndpoints, pathname);
  if (own !== undefined || provider === undefined) return own;
  return apiByPath(sharedEndpoints, pathname) ?? apis[provider];
}

function apiByPath(endpoints: typeof ownEndpoints, pathname: string): ProviderApi | undefined {
  return endpoints.find(([, pattern]) => pattern.test(pathname))?.[0];
}
