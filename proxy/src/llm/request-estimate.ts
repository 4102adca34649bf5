/** What a request may use, before its response is known. */
import type { TokenUsage } from "../ir/usage.ts";
import { type AllowedOutput, isObeyed } from "./allowed-output.ts";
import { tokensOfText } from "./estimate.ts";
import type { LlmRequest } from "./llm-request.ts";
import { maxTokens } from "./usage.ts";

/** The output of a request that does not say how much it allows, to a model whose responses are not known yet. */
const defaultOutput = 1_024;

/**
 * Returns the tokens of the request: its body ÷ 4, as for responses without a usage, and the output that it allows, or
 * else the mean of the model, or else 1,024. A member that the API of the path does not have can only increase it.
 *
 * @param body the bytes of the body, and those that token ids in it lack to four.
 * @param path that the provider receives.
 * @param meanOutput of the model; undefined if it is not known.
 * @param promptTokens of the model's own encoding, in place of the body ÷ 4; undefined if they are not known.
 */
export function estimatedUsage(
  body: { readonly requestBytes: number; readonly missingIdBytes: number },
  request: Pick<LlmRequest, "allowedOutput"> | undefined,
  path: string,
  meanOutput: number | undefined,
  promptTokens?: number,
): TokenUsage {
  const input = Math.min(maxTokens, promptTokens ?? tokensOfText(body.requestBytes + body.missingIdBytes));
  const usual = meanOutput ?? defaultOutput;
  const output = Math.min(maxTokens, outputOf(request?.allowedOutput, path, usual));
  return { input, output, total: Math.min(maxTokens, input + output), estimated: true };
}

/** @param usual the output of a response where the request does not say how much it allows. */
function outputOf(allowed: AllowedOutput | undefined, path: string, usual: number): number {
  if (allowed === undefined) return usual;
  const { tokens = usual, choices } = allowed;
  return choices * (isObeyed(allowed, path) ? tokens : Math.max(tokens, usual));
}
