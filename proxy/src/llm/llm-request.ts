/** What an LLM request asks for, read from its body; the body is left as it is. */
import { foldCase, JsonMembers, memberNamesInAnyCase } from "./json-members.ts";
import { isJsonObject } from "./strict-json.ts";

export interface LlmRequest {
  /** Undefined where the body names none. */
  readonly requestModel?: string | undefined;
  /** Whether a stream is asked for; undefined where there is no JSON body. */
  readonly streaming?: boolean | undefined;
}

const paths = memberNamesInAnyCase("model", "stream");

/**
 * Reads a whole body. Never throws.
 *
 * @returns undefined where servers could read different models from it: it is not one JSON object in UTF-8, or names two
 * models. A form, which begins with a boundary, says nothing; neither does an empty body.
 */
export function readLlmRequest(body: Buffer): LlmRequest | undefined {
  if (body.length === 0 || body.subarray(0, 2).toString("latin1") === "--") return {};
  if (!isJsonObject(body)) return undefined;
  const models = new Set<unknown>();
  let streaming = false;
  const reader = new JsonMembers(paths, ({ path, value }) => {
    const json: unknown = JSON.parse(value?.toString() ?? "null");
    if (foldCase(path) === "stream") streaming = json === true;
    else models.add(typeof json === "string" ? json : undefined);
  });
  reader.push(body);
  if (models.size > 1) return undefined;
  const [model] = models;
  return { requestModel: typeof model === "string" ? model : undefined, streaming };
}
