/** Which models have which encoding of tokens, by the beginnings of their names, as OpenAI's tiktoken lists them. */

/** An encoding of the models of OpenAI. */
export type Encoding = "o200k_base" | "cl100k_base";

const beginnings: readonly (readonly [string, Encoding])[] = [
  ...["gpt-5", "gpt-4.5", "gpt-4.1", "gpt-4o", "chatgpt-4o", "gpt-oss", "o1", "o3", "o4"].map(
    (name) => [name, "o200k_base"] as const,
  ),
  ...["gpt-4", "gpt-3.5", "gpt-35", "text-embedding-3", "text-embedding-ada-002"].map(
    (name) => [name, "cl100k_base"] as const,
  ),
];

/**
 * Returns the encoding of a model, such as `gpt-5-mini` or `openai/gpt-5-mini`; undefined for a model that is not
 * known.
 */
export function encodingOf(model: string): Encoding | undefined {
  const name = model.slice(model.lastIndexOf("/") + 1).toLowerCase();
  return beginnings.find(([beginning]) => name.startsWith(beginning))?.[1];
}
