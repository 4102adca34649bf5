/**
 * The output tokens that a request allows, by the members of the APIs: `max_tokens` (OpenAI, Anthropic),
 * `max_completion_tokens` (OpenAI chat completions), `max_output_tokens` (OpenAI responses),
 * `generationConfig.maxOutputTokens` (Gemini), `inferenceConfig.maxTokens` (Bedrock Converse), `max_gen_len` and
 * `maxTokenCount` (Bedrock InvokeModel), and `num_predict` (Ollama). `n`, `best_of` and `candidateCount` multiply them.
 */
import type { JsonMember, JsonObject, MemberNames } from "./request-json.ts";
import { maxTokens } from "./usage.ts";

const outputNames = ["max_tokens", "max_completion_tokens", "max_output_tokens", "max_gen_len"];
const innerOutputNames = ["maxoutputtokens", "max_output_tokens", "maxtokens", "maxtokencount", "num_predict"];
const choiceNames = ["n", "best_of"];
const innerChoiceNames = ["candidatecount", "candidate_count"];
const parents = ["generationconfig", "generation_config", "inferenceconfig", "textgenerationconfig", "options"];

const inner = [...innerOutputNames, ...innerChoiceNames];

/** The members that `allowedOutputOf` reads. */
export const allowedOutputNames: MemberNames = Object.fromEntries<readonly string[]>([
  ...[...outputNames, ...choiceNames].map((name) => [name, []] as const),
  ...parents.map((name) => [name, inner] as const),
]);

/**
 * Returns the tokens for all choices together, at most 2^31 − 1; undefined if no member is a whole number above 0. Of
 * several the largest counts, since servers differ in which they use.
 *
 * @param object read with `allowedOutputNames`.
 */
export function allowedOutputOf(body: Buffer, object: JsonObject): number | undefined {
  const members = [...object.members, ...object.members.flatMap((member) => member.object?.members ?? [])];
  const largest = (names: readonly string[]): number =>
    Math.max(0, ...members.filter(({ name }) => names.includes(name)).map((member) => wholeNumberOf(body, member)));
  const output = largest([...outputNames, ...innerOutputNames]);
  if (output === 0) return undefined;
  return Math.min(maxTokens, output * Math.max(1, largest([...choiceNames, ...innerChoiceNames])));
}

/** Returns 0 for anything else. */
function wholeNumberOf(body: Buffer, { start, end }: JsonMember): number {
  const value = Number(body.toString("latin1", start, end));
  return Number.isFinite(value) && value > 0 ? Math.min(maxTokens, Math.ceil(value)) : 0;
}
