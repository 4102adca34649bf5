/**
 * Codec of the two messages on the hot path: decodes envoy.service.ratelimit.v3 RateLimitRequest, encodes
 * RateLimitResponse. It is written by hand, so that a call needs no descriptors of messages and no objects besides
 * its own; `rate-limit-codec.test.ts` compares it with a general codec. Field numbers are those of `protos/proto`.
 */
import type {
  CurrentLimit,
  Descriptor,
  DescriptorEntry,
  DescriptorStatus,
  HeaderValue,
  JsonObject,
  JsonValue,
  LimitOverride,
  RateLimitRequest,
  RateLimitResponse,
} from "../../model/rate-limit.ts";
import {
  type CallBounds,
  CallTooLargeError,
  defaultCallBounds,
  tooManyMessage,
  tooLongMessage,
} from "../../limiter/call-bounds.ts";
import { WireError, WireReader, WireType } from "@gatewayproxy/protos/wire-reader";
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import { requestFields, responseFields, statusFields } from "@gatewayproxy/protos/reservation";

/**
 * envoy.type.v3.RateLimitUnit, by number. It has no WEEK, but envoyproxy/ratelimit accepts the number of WEEK in
 * responses (7).
 */
const overrideUnits = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"];

const codeNumbers = { UNKNOWN: 0, OK: 1, OVER_LIMIT: 2 } as const;

/** RateLimitResponse.RateLimit.Unit. */
const unitNumbers = { SECOND: 1, MINUTE: 2, HOUR: 3, DAY: 4, MONTH: 5, YEAR: 6, WEEK: 7 } as const;

const bytesTag = (field: number): number => (field << 3) | WireType.Bytes;
const varintTag = (field: number): number => (field << 3) | WireType.Varint;

/** Mutable, since fields may come in any order and repeatedly: scalars are then replaced, messages merged. */
type Draft<T> = { -readonly [K in keyof T]: T[K] };

/**
 * Decodes a request. Unknown fields are skipped.
 * @throws WireError when the bytes are not a message
 * @throws CallTooLargeError at the first descriptor, entry or text beyond `bounds`
 */
export function decodeRateLimitRequest(message: Buffer, bounds: CallBounds = defaultCallBounds): RateLimitRequest {
  const reader = new WireReader(message);
  const end = message.length;
  const descriptors: Descriptor[] = [];
  let domain = "";
  let hitsAddend = 0;
  let reserves = false;
  let heldAtMs: number | undefined;
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === bytesTag(1)) {
      domain = reader.readString(end);
    } else if (tag === bytesTag(2)) {
      const index = descriptors.length;
      if (index === bounds.maxDescriptors) {
        throw new CallTooLargeError(tooManyMessage("the call", index, "descriptors"));
      }
      descriptors.push(readDescriptor(reader, reader.readEnd(end), index, bounds));
    } else if (tag === varintTag(3)) {
      hitsAddend = reader.readUint32(end);
    } else if (tag === varintTag(requestFields.reserves)) {
      reserves = reader.readVarint(end) !== 0;
    } else if (tag === varintTag(requestFields.heldAt)) {
      heldAtMs = reader.readVarint(end);
    } else {
      skipUnknown(reader, tag, end, 3);
    }
  }
  if (domain.length > bounds.maxTextLength) {
    throw new CallTooLargeError(tooLongMessage("the domain", domain.length, bounds.maxTextLength));
  }
  const call = { domain, descriptors, hitsAddend };
  return reserves || heldAtMs !== undefined
    ? { ...call, ...(reserves && { reserves }), ...(heldAtMs !== undefined && { heldAtMs }) }
    : call;
}

function readDescriptor(reader: WireReader, end: number, index: number, bounds: CallBounds): Descriptor {
  const entries: DescriptorEntry[] = [];
  const descriptor: Draft<Descriptor> = { entries };
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === bytesTag(1)) {
      if (entries.length === bounds.maxEntries) {
        throw new CallTooLargeError(tooManyMessage(`descriptor ${index}`, bounds.maxEntries, "entries"));
      }
      entries.push(readEntry(reader, reader.readEnd(end)));
    } else if (tag === bytesTag(2)) {
      descriptor.limit = readOverride(reader, reader.readEnd(end), descriptor.limit);
    } else if (tag === bytesTag(3)) {
      descriptor.hitsAddend = readWrapper(reader, reader.readEnd(end), descriptor.hitsAddend, readUint64);
    } else if (tag === varintTag(4)) {
      descriptor.isNegativeHits = reader.readVarint(end) !== 0;
    } else {
      skipUnknown(reader, tag, end, 4);
    }
  }
  for (let entryIndex = 0; entryIndex < entries.length; entryIndex++) {
    checkTexts(entries[entryIndex], entryIndex, index, bounds.maxTextLength);
  }
  return descriptor;
}

function checkTexts(
  entry: DescriptorEntry | undefined,
  entryIndex: number,
  descriptor: number,
  maxLength: number,
): void {
  if (entry === undefined) return;
  const { key, value } = entry;
  if (key.length <= maxLength && value.length <= maxLength) return;
  const [name, text] = key.length > maxLength ? ["key", key] : ["value", value];
  throw new CallTooLargeError(
    tooLongMessage(`the ${name} of entry ${entryIndex} of descriptor ${descriptor}`, text.length, maxLength),
  );
}

function readEntry(reader: WireReader, end: number): DescriptorEntry {
  let key = "";
  let value = "";
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === bytesTag(1)) key = reader.readString(end);
    else if (tag === bytesTag(2)) value = reader.readString(end);
    else skipUnknown(reader, tag, end, 2);
  }
  return { key, value };
}

function readOverride(reader: WireReader, end: number, earlier: LimitOverride | undefined): LimitOverride {
  const limit: Draft<LimitOverride> = { requestsPerUnit: 0, unit: "UNKNOWN", ...earlier };
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === varintTag(1)) {
      limit.requestsPerUnit = reader.readUint32(end);
    } else if (tag === varintTag(2)) {
      const unit = reader.readInt32(end);
      limit.unit = overrideUnits[unit] ?? String(unit);
    } else if (tag === bytesTag(3)) {
      limit.unitMultiplier = readWrapper(reader, reader.readEnd(end), limit.unitMultiplier, readUint32);
    } else {
      skipUnknown(reader, tag, end, 3);
    }
  }
  return limit;
}

const readUint64 = (reader: WireReader, end: number): number => reader.readVarint(end);
const readUint32 = (reader: WireReader, end: number): number => reader.readUint32(end);

/** Decodes a google.protobuf.UInt32Value or UInt64Value: one varint, 0 when it is absent. */
function readWrapper(
  reader: WireReader,
  end: number,
  earlier: number | undefined,
  readValue: (reader: WireReader, end: number) => number,
): number {
  let value = earlier ?? 0;
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === varintTag(1)) value = readValue(reader, end);
    else skipUnknown(reader, tag, end, 1);
  }
  return value;
}

/** Skips an unknown field. A known field with a wrong wire type is an error. */
function skipUnknown(reader: WireReader, tag: number, end: number, knownFields: number): void {
  if (tag >>> 3 <= knownFields) throw new WireError(`field ${tag >>> 3} has wire type ${tag & 7}`);
  reader.skip(tag, end);
}

const writer = new WireWriter();

/** Encodes a response; the caller owns the bytes. Fields with default values are left out, as in proto3. */
export function encodeRateLimitResponse(response: RateLimitResponse): Buffer {
  writer.reset();
  writer.uint(1, codeNumbers[response.overallCode]);
  for (const status of response.statuses) writeStatus(status);
  for (const header of response.responseHeaders) writeHeader(header);
  if (response.rawBody !== undefined && response.rawBody.length > 0) writer.bytes(5, response.rawBody);
  if (response.dynamicMetadata !== undefined) {
    const start = writer.begin(6);
    writeStruct(response.dynamicMetadata);
    writer.end(start);
  }
  writer.uint(responseFields.heldAt, response.heldAtMs ?? 0);
  return writer.take();
}

function writeStatus(status: DescriptorStatus): void {
  const start = writer.begin(2);
  writer.uint(1, codeNumbers[status.code]);
  if (status.currentLimit !== undefined) writeLimit(status.currentLimit);
  writer.uint(3, status.limitRemaining);
  if (status.durationUntilResetSeconds !== undefined) {
    const duration = writer.begin(4);
    writer.uint(1, status.durationUntilResetSeconds);
    writer.end(duration);
  }
  writer.uint(statusFields.heldHits, status.heldHits ?? 0);
  writer.end(start);
}

function writeLimit(limit: CurrentLimit): void {
  const start = writer.begin(2);
  writer.uint(1, limit.requestsPerUnit);
  writer.uint(2, unitNumbers[limit.unit]);
  writer.string(3, limit.name ?? "");
  if (limit.unitMultiplier !== undefined) {
    const multiplier = writer.begin(4);
    writer.uint(1, limit.unitMultiplier);
    writer.end(multiplier);
  }
  writer.end(start);
}

function writeHeader(header: HeaderValue): void {
  const start = writer.begin(3);
  writer.string(1, header.key);
  writer.string(2, header.value);
  writer.end(start);
}

/** Encodes a google.protobuf.Struct: a map, so repeated entries of a key and a Value. */
function writeStruct(struct: JsonObject): void {
  for (const [key, value] of Object.entries(struct)) {
    const start = writer.begin(1);
    writer.string(1, key);
    const valueStart = writer.begin(2);
    writeValue(value);
    writer.end(valueStart);
    writer.end(start);
  }
}

/** Encodes a google.protobuf.Value: a oneof, so the member is written even with its default value. */
function writeValue(value: JsonValue): void {
  if (value === null) {
    writer.boolean(1, false);
  } else if (typeof value === "number") {
    writer.double(2, value);
  } else if (typeof value === "string") {
    writer.presentString(3, value);
  } else if (typeof value === "boolean") {
    writer.boolean(4, value);
  } else if (isList(value)) {
    const start = writer.begin(6);
    for (const element of value) {
      const elementStart = writer.begin(1);
      writeValue(element);
      writer.end(elementStart);
    }
    writer.end(start);
  } else {
    const start = writer.begin(5);
    writeStruct(value);
    writer.end(start);
  }
}

function isList(value: readonly JsonValue[] | JsonObject): value is readonly JsonValue[] {
  return Array.isArray(value);
}
