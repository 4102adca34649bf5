/** OpenAI embeddings, `POST /v1/embeddings`: the same text always gets the same vector of length 1. */
import { createHash } from "node:crypto";
import { pieces } from "./conversation.ts";
import type { Dialect } from "./dialect.ts";
import { asNumber, asString } from "./json.ts";
import { usageMember, usageOf } from "./usage.ts";

const defaultDimensions = 256;

export const embeddings: Dialect = (body, options) => {
  const inputs = inputsOf(body["input"]);
  const dimensions = Math.min(4_096, Math.max(1, asNumber(body["dimensions"]) ?? defaultDimensions));
  const isBase64 = body["encoding_format"] === "base64";
  const data = inputs.map((input, index) => {
    const vector = vectorOf(JSON.stringify(input), dimensions);
    const embedding = isBase64 ? Buffer.from(vector.buffer).toString("base64") : Array.from(vector);
    return { object: "embedding", index, embedding };
  });
  const prompt = inputs.reduce<number>((sum, input) => sum + tokensOf(input), 0);
  const { prompt: promptTokens, total } = usageOf(options, { prompt, completion: 0 });
  const usage = usageMember({ prompt_tokens: promptTokens, total_tokens: total }, options.usageFault);
  const model = asString(body["model"]) ?? "mock-embedding-1";
  return { kind: "json", status: 200, body: { object: "list", data, model, ...usage } };
};

/** One or several inputs; each is a text or a list of tokens. */
function inputsOf(input: unknown): readonly unknown[] {
  if (!Array.isArray(input)) return [input];
  return input.every((item) => typeof item === "number") ? [input] : input;
}

function tokensOf(input: unknown): number {
  if (Array.isArray(input)) return input.length;
  return pieces(asString(input) ?? "").length;
}

/** Returns numbers from a hash that is stretched to the requested length. */
function vectorOf(text: string, dimensions: number): Float32Array<ArrayBuffer> {
  const bytes = createHash("shake256", { outputLength: 2 * dimensions })
    .update(text)
    .digest();
  const numbers = Array.from({ length: dimensions }, (_, i) => bytes.readInt16LE(2 * i));
  const length = Math.hypot(...numbers);
  return Float32Array.from(numbers, (number) => (length === 0 ? 0 : number / length));
}
