/**
 * What is changed in a request on its way to an `ai` backend: the model that the Backend prescribes, and the question
 * for the usage of a streamed completion, which OpenAI's API leaves out unless `stream_options.include_usage` asks.
 *
 * The question is put in for every client that did not ask itself, also for one that sent other stream options: a token
 * budget that a client can step around with `{"include_usage":false}` would be none. The answer to it is taken out again
 * (`usage-event-filter.ts`), so the client cannot tell.
 *
 * Servers differ in what they read: names in any case (Go), `"stream":1` (pydantic), the first of two equal names. So what
 * any of them might take for a model or a stream is treated as one; a server that does not refuses such a body anyway.
 *
 * The body is edited, not written anew: every byte but those few stays as the client sent it.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import { foldCase, isSpace, JsonMembers, type Member, type MemberPaths, memberNamesInAnyCase } from "./json-members.ts";

/** The largest body that is held to be edited, 32 MiB, as much as Anthropic accepts. A longer one is to be answered 413. */
export const maxAiRequestBytes = 32 * 1024 * 1024;

export interface AiRequest {
  /** What to send; the same object as was given when nothing had to be changed. */
  readonly body: Buffer;
  /** The model that the backend will be asked for. */
  readonly model: string | undefined;
  /**
   * The usage is asked for in the client's stead: send `accept-encoding: identity`, as a compressed stream could not be
   * edited, and put a `UsageEventFilter` in front of the client if an uncompressed stream of events comes back.
   */
  readonly asksUsage: boolean;
}

/** Whether the body must be at hand as a whole, without a content coding, before the request can be sent. */
export function needsBody(ai: AiBackend, path: string): boolean {
  return ai.model !== undefined || isCompletions(path);
}

/**
 * Makes the request for the backend; `undefined` when the body is not one JSON object, and cannot be edited. Never throws.
 *
 * @param path as the backend will get it; a query does not matter
 * @param body the whole body, decoded
 */
export function prepareAiRequest(ai: AiBackend, path: string, body: Buffer): AiRequest | undefined {
  const request = readObject(body, 0, requestNames);
  if (request === undefined) return undefined;
  const modelEdits = ai.model === undefined ? [] : replaceModel(request, ai.model);
  const usageEdits = isCompletions(path) ? askForUsage(body, request) : [];
  return {
    body: applyEdits(body, [...modelEdits, ...usageEdits]),
    model: ai.model ?? modelOf(request),
    asksUsage: usageEdits.length > 0,
  };
}

const requestNames = memberNamesInAnyCase("model", "stream", "stream_options");
const optionNames = memberNamesInAnyCase("include_usage");

/** Of chats or of texts: both leave their usage out of streams. Case and a last slash matter to some servers only. */
export function isCompletions(path: string): boolean {
  const query = path.indexOf("?");
  const pathname = (query === -1 ? path : path.slice(0, query)).toLowerCase();
  return pathname.endsWith("/completions") || pathname.endsWith("/completions/");
}

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
  if (options.json === "null") return [{ ...options, text: '{"include_usage":true}' }];
  const object = readObject(body.subarray(0, options.end), options.start, optionNames);
  if (object === undefined) return [];
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

function modelOf(request: JsonObject): string | undefined {
  const json = membersOf(request, "model").at(-1)?.json;
  try {
    const model: unknown = json === undefined ? undefined : JSON.parse(json);
    return typeof model === "string" ? model : undefined;
  } catch {
    return undefined;
  }
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
