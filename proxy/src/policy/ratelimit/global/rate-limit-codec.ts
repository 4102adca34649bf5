/**
 * Encodes RateLimitRequest and decodes RateLimitResponse, the two messages of the hot path. Written by hand, since a
 * general codec is slower; `rate-limit-codec.test.ts` compares it with one. Field numbers are those of `protos/proto`.
 *
 * Decoding is tolerant where services differ (unknown fields and numbers, headers as bytes), and strict where the bytes
 * have no meaning.
 */
import { WireError, WireReader, WireType } from "@gatewayproxy/protos/wire-reader";
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import { requestFields, responseFields, statusFields } from "@gatewayproxy/protos/reservation";
import type { OverrideUnit } from "../../../ir/global-limit.ts";
import type {
  CallDescriptor,
  Code,
  DescriptorStatus,
  HeaderValue,
  RateLimitResponse,
  RateLimitRequest,
  ReportedLimit,
} from "./messages.ts";

/** envoy.type.v3.RateLimitUnit, without 0, which crashes envoyproxy/ratelimit. */
const overrideUnits: Readonly<Record<OverrideUnit, number>> = {
  Second: 1,
  Minute: 2,
  Hour: 3,
  Day: 4,
  Month: 5,
  Year: 6,
};

/**
 * RateLimitResponse.RateLimit.Unit by number, in seconds; a month has 30 days and a year 365, as in
 * envoyproxy/ratelimit.
 */
const windowSeconds: readonly (number | undefined)[] = [
  undefined,
  1,
  60,
  3_600,
  86_400,
  2_592_000,
  31_536_000,
  604_800,
];

const codes: readonly Code[] = ["UNKNOWN", "OK", "OVER_LIMIT"];

const bytesTag = (field: number): number => (field << 3) | WireType.Bytes;
const varintTag = (field: number): number => (field << 3) | WireType.Varint;

const writer = new WireWriter();

/** Returns the bytes of a request; the caller owns them. Hits are whole numbers from 0 to 2^32 - 1. */
export function encodeRateLimitRequest(call: RateLimitRequest): Buffer {
  const { domain, descriptors, hits = 0, reserves = false, heldAtMs = 0 } = call;
  writer.reset();
  writer.string(1, domain);
  for (const descriptor of descriptors) writeDescriptor(descriptor);
  writer.uint(3, hits);
  if (reserves) writer.boolean(requestFields.reserves, true);
  writer.uint(requestFields.heldAt, heldAtMs);
  return writer.take();
}

function writeDescriptor({ entries, limitOverride, hits, isRefund = false }: CallDescriptor): void {
  const start = writer.begin(2);
  for (const { key, value } of entries) {
    const entry = writer.begin(1);
    writer.string(1, key);
    writer.string(2, value);
    writer.end(entry);
  }
  if (limitOverride !== undefined) {
    const limit = writer.begin(2);
    writer.uint(1, limitOverride.requestsPerUnit);
    writer.uint(2, overrideUnits[limitOverride.unit]);
    writer.end(limit);
  }
  if (hits !== undefined) {
    // A wrapper message: it is present even for 0, which means to check without counting.
    const wrapper = writer.begin(3);
    writer.uint(1, hits);
    writer.end(wrapper);
  }
  if (isRefund) writer.boolean(4, true);
  writer.end(start);
}

/** Statuses that are read of any response: Envoy shows also those that belong to no descriptor. */
const maxStatuses = 100;

/**
 * Decodes the response in `message`. Throws `WireError` if the bytes are not a message.
 *
 * @param descriptors the number of descriptors of the call. Of more statuses than that, those after the first
 *   `maxStatuses` are left out.
 */
export function decodeRateLimitResponse(message: Buffer, descriptors = Infinity): RateLimitResponse {
  const kept = Math.max(descriptors, maxStatuses);
  const reader = new WireReader(message);
  const end = message.length;
  const statuses: DescriptorStatus[] = [];
  const responseHeaders: HeaderValue[] = [];
  const requestHeaders: HeaderValue[] = [];
  let overallCode: Code = "UNKNOWN";
  let rawBody: Buffer | undefined;
  let heldAtMs: number | undefined;
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === varintTag(1)) overallCode = readCode(reader, end);
    else if (tag === bytesTag(2) && statuses.length >= kept) reader.position = reader.readEnd(end);
    else if (tag === bytesTag(2)) statuses.push(readStatus(reader, reader.readEnd(end)));
    else if (tag === bytesTag(3)) responseHeaders.push(readHeader(message, reader, reader.readEnd(end)));
    else if (tag === bytesTag(4)) requestHeaders.push(readHeader(message, reader, reader.readEnd(end)));
    else if (tag === bytesTag(5)) rawBody = readBytes(message, reader, end);
    else if (tag === varintTag(responseFields.heldAt)) heldAtMs = reader.readVarint(end);
    else skipUnknown(reader, tag, end, 5);
  }
  return {
    overallCode,
    statuses,
    responseHeaders,
    requestHeaders,
    rawBody: rawBody?.length === 0 ? undefined : rawBody,
    heldAtMs,
  };
}

function readCode(reader: WireReader, end: number): Code {
  return codes[reader.readInt32(end)] ?? "UNKNOWN";
}

function readStatus(reader: WireReader, end: number): DescriptorStatus {
  let code: Code = "UNKNOWN";
  let limit: ReportedLimit | undefined;
  let remaining = 0;
  let resetMs: number | undefined;
  let heldHits: number | undefined;
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === varintTag(1)) code = readCode(reader, end);
    else if (tag === bytesTag(2)) limit = readLimit(reader, reader.readEnd(end));
    else if (tag === varintTag(3)) remaining = reader.readUint32(end);
    else if (tag === bytesTag(4)) resetMs = readDuration(reader, reader.readEnd(end));
    else if (tag === varintTag(statusFields.heldHits)) heldHits = reader.readVarint(end);
    else skipUnknown(reader, tag, end, 4);
  }
  return { code, limit, remaining, resetMs, heldHits };
}

function readLimit(reader: WireReader, end: number): ReportedLimit {
  let requestsPerUnit = 0;
  let unit = 0;
  let multiplier = 1;
  let name = "";
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === varintTag(1)) requestsPerUnit = reader.readUint32(end);
    else if (tag === varintTag(2)) unit = reader.readInt32(end);
    else if (tag === bytesTag(3)) name = reader.readString(end);
    else if (tag === bytesTag(4)) multiplier = readMultiplier(reader, reader.readEnd(end));
    else skipUnknown(reader, tag, end, 4);
  }
  const seconds = windowSeconds[unit];
  return { requestsPerUnit, windowSeconds: seconds === undefined ? undefined : seconds * multiplier, name };
}

/** google.protobuf.UInt32Value; 0 counts as absent. */
function readMultiplier(reader: WireReader, end: number): number {
  let value = 0;
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === varintTag(1)) value = reader.readUint32(end);
    else skipUnknown(reader, tag, end, 1);
  }
  return Math.max(1, value);
}

/** A longer reset is invalid: it exceeds every window. */
const maxResetSeconds = 10 * 31_536_000;

/** Reads a google.protobuf.Duration in milliseconds; undefined if it is negative or longer than `maxResetSeconds`. */
function readDuration(reader: WireReader, end: number): number | undefined {
  let seconds = 0;
  let nanos = 0;
  while (reader.position < end) {
    const tag = reader.readTag(end);
    // A negative int64 reads as a number near 2^64.
    if (tag === varintTag(1)) seconds = reader.readVarint(end);
    else if (tag === varintTag(2)) nanos = reader.readInt32(end);
    else skipUnknown(reader, tag, end, 2);
  }
  return seconds > maxResetSeconds || nanos < 0 ? undefined : seconds * 1_000 + nanos / 1_000_000;
}

/** envoy.config.core.v3.HeaderValue: the value is text, or bytes where a service prefers those. */
function readHeader(message: Buffer, reader: WireReader, end: number): HeaderValue {
  let name = "";
  let value = "";
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === bytesTag(1)) name = reader.readString(end).toLowerCase();
    else if (tag === bytesTag(2)) value = reader.readString(end);
    else if (tag === bytesTag(3)) value = readBytes(message, reader, end).toString("latin1");
    else skipUnknown(reader, tag, end, 3);
  }
  return { name, value };
}

function readBytes(message: Buffer, reader: WireReader, end: number): Buffer {
  const stop = reader.readEnd(end);
  const start = reader.position;
  reader.position = stop;
  return message.subarray(start, stop);
}

/** A known field with a wrong wire type makes the message invalid. */
function skipUnknown(reader: WireReader, tag: number, end: number, knownFields: number): void {
  if (tag >>> 3 <= knownFields) throw new WireError(`field ${tag >>> 3} has wire type ${tag & 7}`);
  reader.skip(tag, end);
}
