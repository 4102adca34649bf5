/** Reads the model and the stream option from the body of an LLM request, without changes to the body. */
import type { TokenUsage } from "../ir/usage.ts";
import { type AllowedOutput, allowedOutputNames, allowedOutputOf } from "./allowed-output.ts";
import type { JsonMember, JsonReading, MemberNames } from "./request-json.ts";

/** The members of an LLM request that limits and usage depend on. */
export interface LlmRequest {
  /** The model that the backend gets; undefined if the request names none. */
  readonly requestModel?: string | undefined;
  /** The model as the client has named it; absent before a backend is picked. */
  readonly clientModel?: string | undefined;
  /** Whether the request is for a stream; undefined without a JSON body. */
  readonly streaming?: boolean | undefined;
  /** The output that the request allows; undefined without a JSON body. */
  readonly allowedOutput?: AllowedOutput | undefined;
  /**
   * What the request may use, for limits that reserve it; absent before its backend is picked, and if it generates
   * nothing.
   */
  readonly estimate?: TokenUsage | undefined;
  /**
   * Whether the picked backend has a price for the model; absent before it is picked, and if the request may cost
   * nothing.
   */
  readonly isPriced?: boolean | undefined;
}

/** The members that are read from a body. */
export const llmRequestNames: MemberNames = { model: [], stream: [], ...allowedOutputNames };

/** The maximum length of a model name, in bytes of its JSON text. */
const maxModelBytes = 1024;

/** Whether a body cannot name a model: it is empty, or a form, which begins with a boundary. */
export function hasNoModel(body: Buffer): boolean {
  return body.length === 0 || body.subarray(0, 2).toString("latin1") === "--";
}

/**
 * Reads the request of a body. Never throws.
 *
 * @param reading the result of reading the whole body with `llmRequestNames`
 * @returns a reason if servers could read different models from the body: it is not one JSON object in UTF-8, repeats
 * the member too often, or names two models.
 */
export function readLlmRequest(reading: JsonReading): LlmRequest | "notObject" | "repeated" | "twoModels" {
  if (reading.kind !== "object") return reading.kind;
  const { body, object } = reading;
  const models = new Set<unknown>();
  let streaming = false;
  for (const member of object.members) {
    if (member.name in allowedOutputNames) continue;
    if (member.name === "stream") streaming = body.toString("latin1", member.start, member.end) === "true";
    else models.add(stringValueOf(body, member));
  }
  if (models.size > 1) return "twoModels";
  const [model] = models;
  const allowedOutput = allowedOutputOf(body, object);
  return { requestModel: typeof model === "string" ? model : undefined, streaming, allowedOutput };
}

/** Returns the value if it is a string that is not too long for a model name. */
function stringValueOf(body: Buffer, { start, end }: JsonMember): string | undefined {
  if (end - start > maxModelBytes) return undefined;
  const value: unknown = JSON.parse(body.toString("utf8", start, end));
  return typeof value === "string" ? value : undefined;
}
