/**
 * Edits a request on its way to an `ai` backend: sets the model that the Backend prescribes, and asks for the usage of a
 * streamed completion, which OpenAI's API leaves out unless `stream_options.include_usage` is true.
 *
 * The gateway asks whatever the client's own options say: a client could otherwise pass a token budget by with
 * `{"include_usage":false}`. The answer is taken out of the stream again (`usage-event-filter.ts`).
 *
 * Rule: a body that is edited has one reading. It is one JSON object by RFC 8259 in UTF-8 (`strict-json.ts`). Of members
 * that come twice, or in another case (Go, and C readers that stop at a NUL), each is edited, as servers differ in which
 * one they take. Values that a tolerant server takes for true (`"stream":1`) count as true.
 *
 * The body is edited in place: all other bytes stay as the client sent them.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import { foldCase, isSpace, JsonMembers, type Member, type MemberPaths, memberNamesInAnyCase } from "./json-members.ts";
import { mayBeCompletions } from "./provider-path.ts";
import { isJsonObject } from "./strict-json.ts";

/** The largest body that is held to be edited, 32 MiB, as much as Anthropic accepts. A longer one is answered 413. */
export const maxAiRequestBytes = 32 * 1024 * 1024;

export interface AiRequest {
  /** What to send; the same object as was given when nothing had to be changed. */
  readonly body: Buffer;
  /**
   * The usage is asked for in the client's stead: send `accept-encoding: identity`, as a compressed stream could not be
   * edited, and put a `UsageEventFilter` in front of the client if an uncompressed stream of events comes back.
   */
  readonly asksUsage: boolean;
}

/** Whether the body must be read whole, without a content coding, before the request is sent. */
export function needsBody(ai: AiBackend, path: string): boolean {
  return ai.model !== undefined || mayBeCompletions(path);
}

/**
 * Makes the body for the backend; `undefined` when it cannot be edited: it is not one JSON object, or it names
 * alternatives to the model that the Backend prescribes. Never throws.
 *
 * @param path as the backend will get it; a query does not matter
 * @param body the whole body, decoded
 */
export function prepareAiRequest(ai: AiBackend, path: string, body: Buffer): AiRequest | undefined {
  if (!isJsonObject(body)) return undefined;
  const request = readObject(body, 0, requestNames);
  if (request === undefined || (ai.model !== undefined && namesAlternatives(request))) return undefined;
  const modelEdits = ai.model === undefined ? [] : replaceModel(request, ai.model);
  const usageEdits = mayBeCompletions(path) ? askForUsage(body, request) : [];
  return { body: applyEdits(body, [...modelEdits, ...usageEdits]), asksUsage: usageEdits.length > 0 };
}

/**
 * Members that name models to try beside or in place of `model`: OpenRouter's `models`; LiteLLM's `fallbacks`, and its
 * `extra_body`, whose members it merges into the request.
 */
const alternativeNames = ["models", "fallbacks", "extra_body"];
const requestNames = memberNamesInAnyCase("model", "stream", "stream_options", ...alternativeNames);
const optionNames = memberNamesInAnyCase("include_usage");

/** Puts `text` in the place of the bytes from `start` to `end`. */
interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The members of an object that matter; offsets are those of the body. */
interface JsonObject {
  readonly members: readonly Value[];
  /** Of the object's `}`. */
  readonly end: number;
  readonly isEmpty: boolean;
}

/** A member's value, without the white space around it. */
interface Value {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly json: string;
}

function namesAlternatives(request: JsonObject): boolean {
  return alternativeNames.some((name) => membersOf(request, name).length > 0);
}

/** Every prescribed model replaces the client's; a name that is given twice is replaced twice. */
function replaceModel(request: JsonObject, model: string): readonly Edit[] {
  const text = JSON.stringify(model);
  const values = membersOf(request, "model");
  const edits: Edit[] = values.map((value) => ({ ...value, text }));
  return values.some(({ name }) => name === "model") ? edits : [...edits, insertion(request, "model", text)];
}

/** @returns nothing when the request is not for a stream, or asks itself */
function askForUsage(body: Buffer, request: JsonObject): readonly Edit[] {
  if (membersOf(request, "stream").every(({ json }) => json === "false" || json === "null")) return [];
  const options = membersOf(request, "stream_options");
  const edits = options.flatMap((value) => askInOptions(body, value));
  const isNamed = options.some(({ name }) => name === "stream_options");
  return isNamed ? edits : [...edits, insertion(request, "stream_options", '{"include_usage":true}')];
}

function askInOptions(body: Buffer, options: Value): readonly Edit[] {
  const object = readObject(body.subarray(0, options.end), options.start, optionNames);
  // Some servers take every empty value for no options, and do not report the usage then.
  if (object === undefined) return [{ ...options, text: '{"include_usage":true}' }];
  const asked = membersOf(object, "include_usage");
  const edits = asked.filter(({ json }) => json !== "true").map((value) => ({ ...value, text: "true" }));
  const isNamed = asked.some(({ name }) => name === "include_usage");
  return isNamed ? edits : [...edits, insertion(object, "include_usage", "true")];
}

function insertion(object: JsonObject, name: string, json: string): Edit {
  return { start: object.end, end: object.end, text: `${object.isEmpty ? "" : ","}"${name}":${json}` };
}

/** @param name lower case; every spelling of it counts */
function membersOf(object: JsonObject, name: string): readonly Value[] {
  return object.members.filter((member) => foldCase(member.name) === name);
}

/** @returns undefined when what begins at `start` is not one JSON object and nothing else */
function readObject(body: Buffer, start: number, names: MemberPaths): JsonObject | undefined {
  const text = body.subarray(start);
  const members: Value[] = [];
  const reader = new JsonMembers(names, (member) => members.push(valueOf(member, start)));
  reader.push(text);
  if (reader.end === undefined || !isBlank(text.subarray(reader.end + 1))) return undefined;
  const isEmpty = isBlank(text.subarray(text.indexOf("{") + 1, reader.end));
  return { members, end: start + reader.end, isEmpty };
}

function valueOf(member: Member, offset: number): Value {
  // The text came in one chunk, so the value is always there.
  const json = member.value?.toString() ?? "";
  const start = offset + member.valueStart + Buffer.byteLength(json) - Buffer.byteLength(json.trimStart());
  const value = json.trim();
  return { name: member.path, start, end: start + Buffer.byteLength(value), json: value };
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every(isSpace);
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
