/**
 * The output tokens that a request allows, by the members of the APIs: `max_tokens` (OpenAI, Anthropic),
 * `max_completion_tokens` (OpenAI chat completions), `max_output_tokens` (OpenAI responses),
 * `generationConfig.maxOutputTokens` (Gemini), `inferenceConfig.maxTokens` (Bedrock Converse), `max_gen_len` and
 * `maxTokenCount` (Bedrock InvokeModel), and `num_predict` (Ollama). `n`, `best_of`, `candidateCount` and the prompts
 * of one request to completions multiply them.
 */
import { countPrompts } from "./prompt-count.ts";
import type { JsonMember, JsonObject, MemberNames } from "./request-json.ts";
import { maxTokens } from "./usage.ts";

const outputNames = ["max_tokens", "max_completion_tokens", "max_output_tokens", "max_gen_len"];
const innerOutputNames = ["maxoutputtokens", "max_output_tokens", "maxtokens", "maxtokencount", "num_predict"];
const choiceNames = ["n", "best_of"];
const promptName = "prompt";
const innerChoiceNames = ["candidatecount", "candidate_count"];
const parents = ["generationconfig", "generation_config", "inferenceconfig", "textgenerationconfig", "options"];

const inner = [...innerOutputNames, ...innerChoiceNames];

/** The members that `allowedOutputOf` reads. */
export const allowedOutputNames: MemberNames = Object.fromEntries<readonly string[]>([
  ...[...outputNames, ...choiceNames, promptName].map((name) => [name, []] as const),
  ...parents.map((name) => [name, inner] as const),
]);

/** What a request says about its output. */
export interface AllowedOutput {
  /** For one choice, at most 2^31 − 1; undefined if no member is a whole number above 0. */
  readonly tokens: number | undefined;
  /** The number of responses to each prompt, times that of prompts. */
  readonly choices: number;
  /** The members with the tokens, in the spelling of their API; a dot precedes those inside of another one. */
  readonly members: readonly string[];
}

/** Longer ones are no numbers that a server accepts. */
const maxNumberBytes = 32;

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
 * Returns what a request allows. Of several numbers the largest counts, since servers differ in which they use.
 *
 * @param object read with `allowedOutputNames`.
 */
export function allowedOutputOf(body: Buffer, { members }: JsonObject): AllowedOutput {
  const outer = members.map((member) => ({ member, prefix: "" }));
  const inner = members.flatMap(({ object }) => object?.members ?? []).map((member) => ({ member, prefix: "." }));
  const stated = [...outer, ...inner].map(({ member, prefix }) => {
    const { name, isExact } = member;
    const isSpelled = isExact || strictNames.includes(name);
    const value = name === promptName ? 0 : wholeNumberOf(body, member);
    return { name, member: isSpelled ? prefix + name : undefined, value };
  });
  const outputs = stated.filter(({ name, value }) => [...outputNames, ...innerOutputNames].includes(name) && value > 0);
  const choices = stated.filter(({ name }) => [...choiceNames, ...innerChoiceNames].includes(name));
  const largest = (of: typeof stated): number => Math.max(1, ...of.map(({ value }) => value));
  const prompts = members.filter(({ name }) => name === promptName);
  const counts = prompts.map(({ start, end }) => countPrompts(body, start, end));
  return {
    tokens: outputs.length === 0 ? undefined : largest(outputs),
    choices: largest(choices) * Math.max(1, ...counts),
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

/** Returns the number, which servers also read in a string; 0 for anything else. */
function wholeNumberOf(body: Buffer, { start, end }: JsonMember): number {
  if (end - start > maxNumberBytes) return 0;
  const value = Number(body.toString("latin1", start, end).replaceAll('"', ""));
  return Number.isFinite(value) && value > 0 ? Math.min(maxTokens, Math.ceil(value)) : 0;
}
