/** What a request may use, before its response is known. */
import type { TokenUsage } from "../ir/usage.ts";
import { isObeyed } from "./allowed-output.ts";
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
  const allowed = request?.allowedOutput;
  const output =
    allowed === undefined ? usual : isObeyed(allowed, path) ? allowed.tokens : Math.max(allowed.tokens, usual);
  return { input, output, total: Math.min(maxTokens, input + output), estimated: true };
}
