/**
 * What is changed in a request on its way to an `ai` backend: the model that the Backend prescribes, and the question
 * for the usage of a streamed chat completion, which OpenAI's API leaves out unless `stream_options.include_usage` asks.
 *
 * The question is put in for every client that did not ask itself, also for one that sent other stream options: a token
 * budget that a client can step around with `{"include_usage":false}` would be none. The answer to it is taken out again
 * (`usage-event-filter.ts`), so the client cannot tell.
 *
 * The body is edited, not written anew: every byte but those few stays as the client sent it. What is no JSON object is
 * the upstream's to refuse and passes as it is.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import { JsonMembers, type Member, type MemberPaths, memberPaths } from "./json-members.ts";

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
  return ai.model !== undefined || isChatCompletions(path);
}

/**
 * Makes the request for the backend. Never throws.
 *
 * @param path as received; a query does not matter
 * @param body the whole body, decoded
 */
export function prepareAiRequest(ai: AiBackend, path: string, body: Buffer): AiRequest {
  const request = readObject(body, 0, requestPaths);
  if (request === undefined) return { body, model: undefined, asksUsage: false };
  const modelEdits = ai.model === undefined ? [] : replaceModel(request, ai.model);
  const usageEdits = isChatCompletions(path) ? askForUsage(body, request) : [];
  return {
    body: applyEdits(body, [...modelEdits, ...usageEdits]),
    model: ai.model ?? modelOf(request),
    asksUsage: usageEdits.length > 0,
  };
}

const requestPaths = memberPaths("model", "stream", "stream_options");
const optionPaths = memberPaths("include_usage");

function isChatCompletions(path: string): boolean {
  const query = path.indexOf("?");
  return path.endsWith("/chat/completions", query === -1 ? path.length : query);
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
  const values = request.members.filter(({ name }) => name === "model");
  return values.length === 0 ? [insertion(request, "model", text)] : values.map((value) => ({ ...value, text }));
}

/** @returns nothing when the request is not for a stream, or asks itself */
function askForUsage(body: Buffer, request: JsonObject): readonly Edit[] {
  if (lastOf(request, "stream")?.json !== "true") return [];
  const options = lastOf(request, "stream_options");
  if (options === undefined) return [insertion(request, "stream_options", '{"include_usage":true}')];
  if (options.json === "null") return [{ ...options, text: '{"include_usage":true}' }];
  const object = readObject(body.subarray(0, options.end), options.start, optionPaths);
  if (object === undefined) return [];
  const asked = lastOf(object, "include_usage");
  if (asked === undefined) return [insertion(object, "include_usage", "true")];
  return asked.json === "true" ? [] : [{ ...asked, text: "true" }];
}

function insertion(object: JsonObject, name: string, json: string): Edit {
  return { start: object.end, end: object.end, text: `${object.isEmpty ? "" : ","}"${name}":${json}` };
}

function lastOf(object: JsonObject, name: string): Value | undefined {
  return object.members.findLast((member) => member.name === name);
}

function modelOf(request: JsonObject): string | undefined {
  const json = lastOf(request, "model")?.json;
  try {
    const model: unknown = json === undefined ? undefined : JSON.parse(json);
    return typeof model === "string" ? model : undefined;
  } catch {
    return undefined;
  }
}

/** @returns undefined when what begins at `start` is not one JSON object and nothing else */
function readObject(body: Buffer, start: number, paths: MemberPaths): JsonObject | undefined {
  const text = body.subarray(start);
  const members: Value[] = [];
  const reader = new JsonMembers(paths, (member) => members.push(valueOf(member, start)));
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
  return bytes.every((byte) => byte <= 0x20);
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
