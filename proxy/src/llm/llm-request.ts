/** What an LLM request asks for, read from its body; the body is left as it is. */
import type { JsonMember, JsonReading, WantedNames } from "./request-json.ts";

export interface LlmRequest {
  /** Undefined where the body names none. */
  readonly requestModel?: string | undefined;
  /** Whether a stream is asked for; undefined where there is no JSON body. */
  readonly streaming?: boolean | undefined;
}

/** What is read of a body. */
export const llmRequestNames: WantedNames = { model: [], stream: [] };

/** The longest text that is read as a model, in bytes of its JSON. */
const maxModelBytes = 1024;

/** Whether a body says nothing of a model: it is empty, or a form, which begins with a boundary. */
export function isWithoutModel(body: Buffer): boolean {
  return body.length === 0 || body.subarray(0, 2).toString("latin1") === "--";
}

/**
 * What a body says. Never throws.
 *
 * @param reading of the whole body with `llmRequestNames`
 * @returns why servers could read different models from it: it is not one JSON object in UTF-8, names the model too often,
 * or names two.
 */
export function readLlmRequest(reading: JsonReading): LlmRequest | "notObject" | "repeated" | "twoModels" {
  if (reading.kind !== "object") return reading.kind;
  const { body, object } = reading;
  const models = new Set<unknown>();
  let streaming = false;
  for (const member of object.members) {
    if (member.name === "stream") streaming = body.toString("latin1", member.start, member.end) === "true";
    else models.add(textOf(body, member));
  }
  if (models.size > 1) return "twoModels";
  const [model] = models;
  return { requestModel: typeof model === "string" ? model : undefined, streaming };
}

/** Undefined where the value is no text, or too long to name a model. */
function textOf(body: Buffer, { start, end }: JsonMember): string | undefined {
  if (end - start > maxModelBytes) return undefined;
  const value: unknown = JSON.parse(body.toString("utf8", start, end));
  return typeof value === "string" ? value : undefined;
}
