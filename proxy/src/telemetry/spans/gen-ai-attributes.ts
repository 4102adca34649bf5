/**
 * The attributes of calls to LLM providers, by the semantic conventions for generative AI (Development). They have the
 * operation, the models and the tokens, and never a prompt or a response.
 */
import type { SpanAttributes } from "@gatewayproxy/runtime/span";
import type { AiBackend } from "../../ir/snapshot.ts";
import type { RequestRecord } from "../request-record.ts";
import { shownText } from "../shown-text.ts";
import type { AttemptSpan } from "./request-span.ts";

/**
 * The values of `gen_ai.provider.name`. A server with OpenAI's API has its name; `server.address` says which server it
 * is.
 */
const providers: Readonly<Record<AiBackend["provider"], string>> = {
  openai: "openai",
  openaiCompatible: "openai",
  anthropic: "anthropic",
  azure: "azure.ai.openai",
  gemini: "gcp.gemini",
  bedrock: "aws.bedrock",
};

/** The values of `gen_ai.system`, the name before v1.37, that differ. */
const systems: Readonly<Partial<Record<AiBackend["provider"], string>>> = { azure: "az.ai.openai" };

/** The operations by the end of the path, without its query. */
const operations: readonly (readonly [pattern: RegExp, operation: string])[] = [
  [/\/chat\/completions$|\/messages$|\/responses$|\/converse(?:-stream)?$/, "chat"],
  [/\/completions?$|\/complete$|\/infill$/, "text_completion"],
  [/\/embed(?:dings?)?$|:(?:batchEmbedContents|embedContent)$/, "embeddings"],
  [/:(?:streamGenerateContent|generateContent)$|\/images\/\w+$|\/audio\/\w+$/, "generate_content"],
];

/** Returns `gen_ai.provider.name`, and `gen_ai.system` as it was before v1.37. */
export function genAiProvider(provider: AiBackend["provider"]): { readonly name: string; readonly system: string } {
  const name = providers[provider];
  return { name, system: systems[provider] ?? name };
}

/** Paths are read to this length. */
const maxPath = 1_024;

/** Returns `gen_ai.operation.name` of a request to a provider; undefined if it is none of the known operations. */
export function genAiOperation(path: string): string | undefined {
  const [pathname = ""] = path.slice(0, maxPath).split("?", 1);
  const known = pathname.replaceAll(/%3a/gi, ":");
  return operations.find(([pattern]) => pattern.test(known))?.[1];
}

/** Returns the name of the span: the operation and the model. Undefined if the operation is not known. */
export function genAiName({ path }: AttemptSpan, record: RequestRecord): string | undefined {
  const operation = genAiOperation(path);
  const model = requestModel(record);
  return operation === undefined || model === undefined ? operation : `${operation} ${model}`;
}

function requestModel({ requestModel, clientModel }: RequestRecord): string | undefined {
  const model = requestModel ?? clientModel;
  return model === undefined ? undefined : shownText(model);
}

/**
 * Returns the attributes of an attempt at a provider.
 *
 * @param isLast whether the response is that of this attempt.
 * @param isLatest whether OTEL_SEMCONV_STABILITY_OPT_IN asks for the latest names only, and for what is new in them.
 */
export function genAiAttributes(
  { ai, path }: AttemptSpan,
  record: RequestRecord,
  isLast: boolean,
  isLatest: boolean,
): SpanAttributes {
  const operation = genAiOperation(path);
  if (ai === undefined || operation === undefined) return {};
  const { name, system } = genAiProvider(ai.provider);
  return {
    "gen_ai.operation.name": operation,
    "gen_ai.provider.name": name,
    "gen_ai.system": isLatest ? undefined : system,
    "gen_ai.request.model": requestModel(record),
    ...(isLast && usageAttributes(record, isLatest)),
  };
}

function usageAttributes({ usage }: RequestRecord, isLatest: boolean): SpanAttributes {
  if (usage === undefined) return {};
  const { input, output, model, cachedInputTokens, cacheCreationTokens, reasoningTokens, estimated } = usage;
  return {
    "gen_ai.response.model": model === undefined ? undefined : shownText(model),
    "gen_ai.usage.input_tokens": input,
    "gen_ai.usage.output_tokens": output,
    ...(isLatest && {
      "gen_ai.usage.cache_read.input_tokens": cachedInputTokens,
      "gen_ai.usage.cache_creation.input_tokens": cacheCreationTokens,
      "gen_ai.usage.reasoning.output_tokens": reasoningTokens,
    }),
    "gatewayproxy.usage_estimated": estimated ? true : undefined,
  };
}
