/** What an LLM request asks for, read from its body; the body is left as it is. */
import { foldCase, JsonMembers, memberNamesInAnyCase } from "./json-members.ts";

export interface LlmRequest {
  /** Undefined where the body names none. */
  readonly requestModel?: string | undefined;
  /** Whether a stream is asked for; undefined where the body is no JSON object. */
  readonly streaming?: boolean | undefined;
}

const paths = memberNamesInAnyCase("model", "stream");

/** Never throws; of a member that comes twice, in whatever case, the last counts, as JSON parsers have it. */
export function readLlmRequest(body: Buffer): LlmRequest {
  const values = new Map<string, unknown>();
  const reader = new JsonMembers(paths, ({ path, value }) => values.set(foldCase(path), parsed(value)));
  reader.push(body);
  if (reader.end === undefined) return {};
  const model = values.get("model");
  return { requestModel: typeof model === "string" ? model : undefined, streaming: values.get("stream") === true };
}

function parsed(value: Buffer | undefined): unknown {
  try {
    return value === undefined ? undefined : JSON.parse(value.toString());
  } catch {
    return undefined;
  }
}
