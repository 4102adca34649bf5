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

/** What a request says about its output. */
export interface AllowedOutput {
  /** For all choices together, at most 2^31 − 1. */
  readonly tokens: number;
  /** The members that say it, in the spelling of their API; a dot precedes those inside of another one. */
  readonly members: readonly string[];
}

/** Gemini and Bedrock reject other members, so that their spelling does not matter. */
const strictNames = ["maxoutputtokens", "maxtokens", "maxtokencount"];

/** The members of `AllowedOutput` that the endpoints of each API obey. */
const apis: readonly { readonly path: RegExp; readonly members: readonly string[] }[] = [
  { path: /completions$/, members: ["max_tokens", "max_completion_tokens"] },
  { path: /\/responses$/, members: ["max_output_tokens"] },
  { path: /\/messages$/, members: ["max_tokens"] },
  { path: /:(?:streamGenerateContent|generateContent)$/, members: [".maxoutputtokens", ".max_output_tokens"] },
  { path: /\/converse(?:-stream)?$/, members: [".maxtokens"] },
  {
    path: /\/invoke(?:-with-response-stream)?$/,
    members: ["max_tokens", "max_gen_len", ".maxtokencount", ".maxtokens", ".max_output_tokens", ".maxoutputtokens"],
  },
  { path: /\/api\/(?:chat|generate)$/, members: [".num_predict"] },
  { path: /\/v[12]\/chat$/, members: ["max_tokens"] },
];

/**
 * Returns what a request allows; undefined if no member is a whole number above 0. Of several the largest counts, since
 * servers differ in which they use.
 *
 * @param object read with `allowedOutputNames`.
 */
export function allowedOutputOf(body: Buffer, { members }: JsonObject): AllowedOutput | undefined {
  const outer = members.map((member) => ({ member, prefix: "" }));
  const inner = members.flatMap(({ object }) => object?.members ?? []).map((member) => ({ member, prefix: "." }));
  const stated = [...outer, ...inner].map(({ member, prefix }) => {
    const { name, isExact } = member;
    const isSpelled = isExact || strictNames.includes(name);
    return { name, member: isSpelled ? prefix + name : undefined, value: wholeNumberOf(body, member) };
  });
  const outputs = stated.filter(({ name, value }) => [...outputNames, ...innerOutputNames].includes(name) && value > 0);
  if (outputs.length === 0) return undefined;
  const choices = stated.filter(({ name }) => [...choiceNames, ...innerChoiceNames].includes(name));
  const largest = (of: typeof stated): number => Math.max(1, ...of.map(({ value }) => value));
  return {
    tokens: Math.min(maxTokens, largest(outputs) * largest(choices)),
    members: outputs.flatMap(({ member }) => member ?? []),
  };
}

/**
 * Whether the provider obeys what a request says about its output. Many servers ignore members that their API does not
 * have, such as `max_output_tokens` of chat completions.
 *
 * @param path that the provider receives.
 */
export function isObeyed({ members }: AllowedOutput, path: string): boolean {
  const pathname = path.split("?", 1)[0] ?? "";
  return apis.some((api) => api.members.some((member) => members.includes(member)) && api.path.test(pathname));
}

/** Returns 0 for anything else. */
function wholeNumberOf(body: Buffer, { start, end }: JsonMember): number {
  const value = Number(body.toString("latin1", start, end));
  return Number.isFinite(value) && value > 0 ? Math.min(maxTokens, Math.ceil(value)) : 0;
}
