/**
 * Edits a request to a model: sets the model that an `ai` Backend prescribes, and requests the usage of a streamed
 * completion, which OpenAI's API omits unless `stream_options.include_usage` is true.
 *
 * The gateway requests the usage even if the client's options do not: otherwise a client could evade a token limit by
 * `{"include_usage":false}`. `usage-event-filter.ts` edits the response accordingly.
 *
 * An edited body must be unambiguous: one JSON object by RFC 8259 in UTF-8 (`request-json.ts`). If a member is
 * repeated, or occurs in another case, each occurrence is edited, since servers differ in which one they use (Go
 * ignores case, parsers in C stop at a NUL). Values that a tolerant server accepts as true (`"stream":1`) count as
 * true.
 *
 * All other bytes of the body stay unchanged.
 */
import { generatesNothing } from "./charging.ts";
import { deferringMembers, takesDeferringMembers } from "./deferred-work.ts";
import { hasNoStreamOptions } from "./model-endpoints.ts";
import { mayBeCompletions } from "./provider-path.ts";
import type { NestedMember, JsonMember, JsonObject, JsonReading, MemberNames } from "./request-json.ts";

/** The maximum size of a body that is buffered for editing: 32 MiB, like Anthropic's. A longer one gets a 413. */
export const maxAiRequestBytes = 32 * 1024 * 1024;

/** The reason why a body cannot be edited. */
export type AiRequestError =
  /** It is not one JSON object in UTF-8. */
  | "notObject"
  /** It repeats a member that is read or edited more often than `maxRepeats`. */
  | "repeated"
  /** It names alternatives to the model that the Backend prescribes. */
  | "alternatives"
  /** It requests deferred work, which the Backend does not allow. */
  | "deferred";

/** The result of the edits. */
export interface AiRequest {
  /** The body to send; the object that was read if no edit was necessary. */
  readonly body: Buffer;
  /**
   * The gateway has added the request for the usage: the response has an event that the client did not request.
   */
  readonly requestsUsage: boolean;
}

/** The rules by which a request body is edited or rejected. */
export interface AiRequestRules {
  /** The model that the Backend prescribes. */
  readonly model?: string | undefined;
  /** Whether the path names the model, and a body without one stays so: its API may reject the member. */
  readonly isModelInPath?: boolean;
  /** Whether a body that requests deferred work is rejected, at paths with such members. */
  readonly rejectsDeferred: boolean;
  /** Whether the body decides if the path does not: a server may have an alias of completions. */
  readonly inspectsBody: boolean;
}

/**
 * Returns how much of the body, without content coding, must be read before the request is sent. `object`: all of it
 * if some server could read a JSON object from it.
 */
export function bodyNeeded(
  { model, rejectsDeferred, inspectsBody }: AiRequestRules,
  path: string,
): "all" | "object" | "none" {
  if (model !== undefined || mayBeCompletions(path) || (rejectsDeferred && takesDeferringMembers(path))) return "all";
  return inspectsBody && !hasNoStreamOptions(path) && !generatesNothing(path) ? "object" : "none";
}

/** Whether some server could read a JSON object from a body with this beginning, in any encoding. */
export function mayBeginObject(start: Buffer): boolean {
  const first = start.find((byte) => !ignoredBytes.has(byte));
  // Lenient parsers accept comments.
  return first === undefined || first === 0x7b || first === 0x2f || first === 0x23;
}

/** Blanks, byte order marks, and the zero bytes of UTF-16 and UTF-32. */
const ignoredBytes: ReadonlySet<number> = new Set([
  0x00, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x20, 0xef, 0xbb, 0xbf, 0xfe, 0xff,
]);

/**
 * Returns the body for the backend, or the reason why it cannot be edited. Never throws.
 *
 * @param path the path that the backend will receive; the query is ignored
 * @param reading the result of reading the whole decoded body with `aiRequestNames`
 */
export function prepareAiRequest(
  { model, isModelInPath = false, rejectsDeferred, inspectsBody }: AiRequestRules,
  path: string,
  reading: JsonReading,
): AiRequest | AiRequestError {
  if (reading.kind !== "object") return reading.kind;
  const { body, object, nested = [] } = reading;
  const mayHaveStreamOptions = !hasNoStreamOptions(path);
  if (rejectsDeferred && (mayHaveStreamOptions || takesDeferringMembers(path)) && requestsDeferredWork(body, object)) {
    return "deferred";
  }
  if (model !== undefined && (namesAlternatives(object) || nestsOtherModel(body, nested, model))) return "alternatives";
  const modelEdits = model === undefined ? [] : replaceModel(object, model, isModelInPath);
  const mayComplete = mayBeCompletions(path) || (inspectsBody && mayHaveStreamOptions && hasPrompt(object));
  const usageEdits = mayComplete ? requestUsage(body, object) : [];
  return { body: applyEdits(body, [...modelEdits, ...usageEdits]), requestsUsage: usageEdits.length > 0 };
}

/**
 * Members that name alternatives to `model`, or select a model in another way: OpenRouter's `models` and `preset`;
 * LiteLLM's kinds of `fallbacks`, `user_config`, `model_list`, and `extra_body`, whose members it merges into the
 * request; Vercel's `providerOptions.gateway.models`; Gemini's and Mistral's agents; adapters of SGLang, TGI and vLLM.
 */
const alternativeNames = [
  ...["*model*", "*fallback*", "*lora*", "*adapter*", "*deployment*", "assistant_id", "extra_body", "user_config"],
  ...["provideroptions", "router_settings_override", "preset", "agent", "agent_id", "engine", "*bot_id*", "api_base"],
  ...["base_url", "custom_llm_provider", "route"],
] as const;

/**
 * Nested members that name a model, an adapter or a deployment: in tools, plugins, settings, or requests of a batch.
 */
const nestedNames = ["*model*", "*lora*", "*adapter*", "*deployment*"] as const;

/**
 * Members whose values never select a model: the input of the model, JSON Schemas, and data of the client. The client
 * chooses the names in them.
 */
const dataNames = [
  ...["messages", "message", "prompt", "prompts", "input[]", "inputs", "contents", "content", "parts", "system"],
  ...["system_instruction", "systeminstruction", "instructions", "documents", "texts", "text_input", "turns"],
  ...["chat_history", "tool_results", "tool_calls", "input_examples", "args", "arguments", "logit_bias"],
  ...["schema", "json_schema", "response_schema", "responseschema", "responsejsonschema", "response_json_schema"],
  ...["input_schema", "inputschema", "output_schema", "outputschema", "parametersjsonschema", "parameter_definitions"],
  ...["properties", "patternproperties", "dependentschemas", "$defs", "definitions", "default", "examples", "enum"],
  ...["guided_json", "structured_outputs", "metadata", "labels", "requestmetadata", "promptvariables", "variables"],
  ...["chat_template_kwargs", "mm_processor_kwargs", "additionalmodelrequestfields"],
] as const;

/** Settings of the model in Bedrock's API. */
const harmlessNames = ["additionalmodelrequestfields", "additionalmodelresponsefieldpaths"] as const;

/** Members with the prompt. A body without them is not a completion request. */
const promptNames = ["messages", "prompt", "prompt_embeds"] as const;

/** The members of a request that are read or edited. */
export const aiRequestNames: MemberNames = {
  model: [],
  stream: [],
  stream_options: ["include_usage"],
  ...Object.fromEntries(
    [...alternativeNames, ...harmlessNames, ...deferringMembers, ...promptNames].map((name) => [name, []]),
  ),
  extra_body: deferringMembers,
  "**": nestedNames,
  "!**": dataNames,
};

/** Replaces the bytes from `start` to `end` by `text`. */
interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

function namesAlternatives(request: JsonObject): boolean {
  return alternativeNames.some((name) => membersOf(request, name).length > 0);
}

/**
 * Whether a value contains the name of another model. The requests in a batch of Gemini repeat the model of the path.
 */
function nestsOtherModel(body: Buffer, members: readonly NestedMember[], model: string): boolean {
  const names = [model, `models/${model}`].map((name) => JSON.stringify(name));
  return members.some((member) => !names.some((name) => isValue(body, member, name)));
}

function hasPrompt(request: JsonObject): boolean {
  return promptNames.some((name) => membersOf(request, name).length > 0);
}

/** Each of several equal names counts, since servers differ in which one they use. */
function requestsDeferredWork(body: Buffer, request: JsonObject): boolean {
  const defersWork = (member: JsonMember): boolean => !isValue(body, member, "false") && !isValue(body, member, "null");
  return [request, ...membersOf(request, "extra_body").map(({ object }) => object)].some(
    (object) => object !== undefined && deferringMembers.some((name) => membersOf(object, name).some(defersWork)),
  );
}

/** Replaces each occurrence of the client's model by the prescribed one. */
function replaceModel(request: JsonObject, model: string, isModelInPath: boolean): readonly Edit[] {
  const text = JSON.stringify(model);
  const models = membersOf(request, "model");
  const edits: Edit[] = models.map(({ start, end }) => ({ start, end, text }));
  const isComplete = isModelInPath || models.some(({ isExact }) => isExact);
  return isComplete ? edits : [...edits, insertion(request, "model", text)];
}

/** @returns no edits if the request is not for a stream, or requests the usage itself */
function requestUsage(body: Buffer, request: JsonObject): readonly Edit[] {
  const streams = membersOf(request, "stream");
  if (streams.every((value) => isValue(body, value, "false") || isValue(body, value, "null"))) return [];
  const options = membersOf(request, "stream_options");
  const edits = options.flatMap((value) => requestUsageInOptions(body, value));
  const isNamed = options.some(({ isExact }) => isExact);
  return isNamed ? edits : [...edits, insertion(request, "stream_options", '{"include_usage":true}')];
}

function requestUsageInOptions(body: Buffer, { start, end, object }: JsonMember): readonly Edit[] {
  // Some servers treat empty values as missing options, and then do not report the usage.
  if (object === undefined) return [{ start, end, text: '{"include_usage":true}' }];
  const members = membersOf(object, "include_usage");
  const edits = members.flatMap((value) =>
    isValue(body, value, "true") ? [] : { start: value.start, end: value.end, text: "true" },
  );
  const isNamed = members.some(({ isExact }) => isExact);
  return isNamed ? edits : [...edits, insertion(object, "include_usage", "true")];
}

function insertion(object: JsonObject, name: string, json: string): Edit {
  return { start: object.end, end: object.end, text: `${object.isEmpty ? "" : ","}"${name}":${json}` };
}

function membersOf({ members }: JsonObject, name: string): readonly JsonMember[] {
  return members.filter((member) => member.name === name);
}

function isValue(body: Buffer, { start, end }: NestedMember, literal: string): boolean {
  return end - start === Buffer.byteLength(literal) && body.toString("utf8", start, end) === literal;
}

function applyEdits(body: Buffer, edits: readonly Edit[]): Buffer {
  if (edits.length === 0) return body;
  const pieces: Buffer[] = [];
  let at = 0;
  for (const edit of edits.toSorted((a, b) => a.start - b.start)) {
    pieces.push(body.subarray(at, edit.start), Buffer.from(edit.text));
    at = edit.end;
  }
  pieces.push(body.subarray(at));
  return Buffer.concat(pieces);
}
