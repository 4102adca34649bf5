/**
 * Edits a request to a model: sets the model that an `ai` Backend prescribes, and asks for the usage of a streamed
 * completion, which OpenAI's API leaves out unless `stream_options.include_usage` is true.
 *
 * The gateway asks whatever the client's own options say: a client could otherwise pass a token budget by with
 * `{"include_usage":false}`. `usage-event-filter.ts` edits what the client sees of the answer.
 *
 * Rule: a body that is edited has one reading. It is one JSON object by RFC 8259 in UTF-8 (`request-json.ts`). Of members
 * that come twice, or in another case (Go, and C readers that stop at a NUL), each is edited, as servers differ in which
 * one they take. Values that a tolerant server takes for true (`"stream":1`) count as true.
 *
 * The body is edited in place: all other bytes stay as the client sent them.
 */
import { generatesNothing } from "./charging.ts";
import { deferringMembers, takesDeferringMembers } from "./deferred-work.ts";
import { isNeverAsked } from "./model-endpoints.ts";
import { mayBeCompletions } from "./provider-path.ts";
import type { Found, JsonMember, JsonObject, JsonReading, WantedNames } from "./request-json.ts";

/** The largest body that is held to be edited, 32 MiB, as much as Anthropic accepts. A longer one is answered 413. */
export const maxAiRequestBytes = 32 * 1024 * 1024;

/** Why a body cannot be edited. */
export type Unedited =
  /** It is not one JSON object in UTF-8. */
  | "notObject"
  /** It names a member that is read or edited more often than is accepted. */
  | "repeated"
  /** It names alternatives to the model that the Backend prescribes. */
  | "alternatives"
  /** It asks for work that is done later, which the Backend does not allow. */
  | "deferred";

export interface AiRequest {
  /** What to send; the same object as was read when nothing had to be changed. */
  readonly body: Buffer;
  /**
   * The usage is asked for in the client's stead: its answer has an event that the client did not ask for.
   */
  readonly asksUsage: boolean;
}

/** What is done with the body of a request. */
export interface AiRequestRules {
  /** The model that the Backend prescribes. */
  readonly model?: string | undefined;
  /** Whether a body that asks for deferred work is refused, where the path takes such members. */
  readonly refusesDeferred: boolean;
  /** Whether the body decides where the path does not: any server may have an alias of completions. */
  readonly judgesBody: boolean;
}

/**
 * How much of the body must be read, without a content coding, before the request is sent. `object`: all of it, where it
 * could be a JSON object to some server.
 */
export function bodyNeeded(
  { model, refusesDeferred, judgesBody }: AiRequestRules,
  path: string,
): "all" | "object" | "none" {
  if (model !== undefined || mayBeCompletions(path) || (refusesDeferred && takesDeferringMembers(path))) return "all";
  return judgesBody && !isNeverAsked(path) && !generatesNothing(path) ? "object" : "none";
}

/** Whether some server could take a body that begins like this for a JSON object, in whatever encoding. */
export function mayBeginObject(start: Buffer): boolean {
  const first = start.find((byte) => !isIgnored.has(byte));
  // Lenient readers take comments.
  return first === undefined || first === 0x7b || first === 0x2f || first === 0x23;
}

/** Blanks, byte order marks, and the zeros of UTF-16 and UTF-32. */
const isIgnored: ReadonlySet<number> = new Set([
  0x00, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x20, 0xef, 0xbb, 0xbf, 0xfe, 0xff,
]);

/**
 * Makes the body for the backend, or says why there is none. Never throws.
 *
 * @param path as the backend will get it; a query does not matter
 * @param reading of the whole body, decoded, with `aiRequestNames`
 */
export function prepareAiRequest(
  { model, refusesDeferred, judgesBody }: AiRequestRules,
  path: string,
  reading: JsonReading,
): AiRequest | Unedited {
  if (reading.kind !== "object") return reading.kind;
  const { body, object, everywhere = [] } = reading;
  const isOpen = !isNeverAsked(path);
  if (refusesDeferred && (isOpen || takesDeferringMembers(path)) && asksForDeferred(body, object)) return "deferred";
  if (model !== undefined && (namesAlternatives(object) || nestsOtherModel(body, everywhere, model)))
    return "alternatives";
  const modelEdits = model === undefined ? [] : replaceModel(object, model);
  const mayComplete = mayBeCompletions(path) || (judgesBody && isOpen && hasPrompt(object));
  const usageEdits = mayComplete ? askForUsage(body, object) : [];
  return { body: applyEdits(body, [...modelEdits, ...usageEdits]), asksUsage: usageEdits.length > 0 };
}

/**
 * Members that name models to try beside or in place of `model`, or what chooses one: OpenRouter's `models` and `preset`;
 * LiteLLM's `fallbacks` in all its kinds, `user_config`, `model_list`, and its `extra_body`, whose members it merges into the
 * request; Vercel's `providerOptions.gateway.models`; Gemini's and Mistral's agents; adapters of SGLang, TGI and vLLM.
 */
const alternativeNames = [
  ...["*model*", "*fallback*", "*lora*", "*adapter*", "*deployment*", "assistant_id", "extra_body", "user_config"],
  ...["provideroptions", "router_settings_override", "preset", "agent", "agent_id", "engine", "*bot_id*", "api_base"],
  ...["base_url", "custom_llm_provider", "route"],
] as const;

/** Names inside values that name a model, an adapter or a deployment, in tools, plugins, settings, or requests of a batch. */
const nestedNames = ["*model*", "*lora*", "*adapter*", "*deployment*"] as const;

/**
 * Members in whose values no model is chosen: what the model reads, JSON Schemas, and values that the client makes up. There the
 * names are the client's own.
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

/** Of Bedrock: settings of the model. */
const harmlessNames = ["additionalmodelrequestfields", "additionalmodelresponsefieldpaths"] as const;

/** Members in which the text is that a model goes on with: only such a body can be one of completions. */
const promptNames = ["messages", "prompt", "prompt_embeds"] as const;

/** What is read of a request, and edited. */
export const aiRequestNames: WantedNames = {
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

/** Puts `text` in the place of the bytes from `start` to `end`. */
interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

function namesAlternatives(request: JsonObject): boolean {
  return alternativeNames.some((name) => membersOf(request, name).length > 0);
}

/** Whether a model other than `model` is named inside a value. Gemini's requests in a batch repeat that of the path. */
function nestsOtherModel(body: Buffer, found: readonly Found[], model: string): boolean {
  const names = [model, `models/${model}`].map((name) => JSON.stringify(name));
  return found.some((member) => !names.some((name) => isValue(body, member, name)));
}

function hasPrompt(request: JsonObject): boolean {
  return promptNames.some((name) => membersOf(request, name).length > 0);
}

/** Each of several equal names counts, as servers differ in which one they take. */
function asksForDeferred(body: Buffer, request: JsonObject): boolean {
  const asks = (member: JsonMember): boolean => !isValue(body, member, "false") && !isValue(body, member, "null");
  return [request, ...membersOf(request, "extra_body").map(({ object }) => object)].some(
    (object) => object !== undefined && deferringMembers.some((name) => membersOf(object, name).some(asks)),
  );
}

/** Every prescribed model replaces the client's; a name that is given twice is replaced twice. */
function replaceModel(request: JsonObject, model: string): readonly Edit[] {
  const text = JSON.stringify(model);
  const models = membersOf(request, "model");
  const edits: Edit[] = models.map(({ start, end }) => ({ start, end, text }));
  return models.some(({ isExact }) => isExact) ? edits : [...edits, insertion(request, "model", text)];
}

/** @returns nothing when the request is not for a stream, or asks itself */
function askForUsage(body: Buffer, request: JsonObject): readonly Edit[] {
  const streams = membersOf(request, "stream");
  if (streams.every((value) => isValue(body, value, "false") || isValue(body, value, "null"))) return [];
  const options = membersOf(request, "stream_options");
  const edits = options.flatMap((value) => askInOptions(body, value));
  const isNamed = options.some(({ isExact }) => isExact);
  return isNamed ? edits : [...edits, insertion(request, "stream_options", '{"include_usage":true}')];
}

function askInOptions(body: Buffer, { start, end, object }: JsonMember): readonly Edit[] {
  // Some servers take every empty value for no options, and do not report the usage then.
  if (object === undefined) return [{ start, end, text: '{"include_usage":true}' }];
  const asked = membersOf(object, "include_usage");
  const edits = asked.flatMap((value) =>
    isValue(body, value, "true") ? [] : { start: value.start, end: value.end, text: "true" },
  );
  const isNamed = asked.some(({ isExact }) => isExact);
  return isNamed ? edits : [...edits, insertion(object, "include_usage", "true")];
}

function insertion(object: JsonObject, name: string, json: string): Edit {
  return { start: object.end, end: object.end, text: `${object.isEmpty ? "" : ","}"${name}":${json}` };
}

function membersOf({ members }: JsonObject, name: string): readonly JsonMember[] {
  return members.filter((member) => member.name === name);
}

function isValue(body: Buffer, { start, end }: Found, literal: string): boolean {
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
