/**
 * The two messages of the hot path, between their bytes and `messages.ts`: RateLimitRequest is written, RateLimitResponse
 * is read. By hand, because a general codec costs more than all else that a limit does for a request;
 * `rate-limit-codec.test.ts` holds it against one. Field numbers are those of `protos/proto`.
 *
 * Reading is tolerant where services differ (unknown fields and numbers, headers as bytes) and strict where nothing
 * sensible can be made of the bytes.
 */
import { WireError, WireReader, WireType } from "@gatewayproxy/protos/wire-reader";
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import type { OverrideUnit } from "../../../ir/global-limit.ts";
import type {
  CallDescriptor,
  Code,
  DescriptorStatus,
  HeaderValue,
  RateLimitAnswer,
  RateLimitCall,
  ReportedLimit,
} from "./messages.ts";

/** envoy.type.v3.RateLimitUnit. 0 is not among them: the reference service dies of it. */
const overrideUnits: Readonly<Record<OverrideUnit, number>> = {
  Second: 1,
  Minute: 2,
  Hour: 3,
  Day: 4,
  Month: 5,
  Year: 6,
};

/** RateLimitResponse.RateLimit.Unit by number, in seconds; a month has 30 days and a year 365, as in the reference. */
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

/** The bytes of a call; they belong to the caller. Hits are whole numbers from 0 to 2^32 - 1. */
export function encodeRateLimitCall({ domain, descriptors, hits = 0 }: RateLimitCall): Buffer {
  writer.reset();
  writer.string(1, domain);
  for (const descriptor of descriptors) writeDescriptor(descriptor);
  writer.uint(3, hits);
  return writer.take();
}

function writeDescriptor({ entries, limitOverride, hits }: CallDescriptor): void {
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
    // A wrapper message: its presence is what makes 0 mean "look only".
    const wrapper = writer.begin(3);
    writer.uint(1, hits);
    writer.end(wrapper);
  }
  writer.end(start);
}

/** The answer in `message`. Throws `WireError` when the bytes are not a message. */
export function decodeRateLimitAnswer(message: Buffer): RateLimitAnswer {
  const reader = new WireReader(message);
  const end = message.length;
  const statuses: DescriptorStatus[] = [];
  const responseHeaders: HeaderValue[] = [];
  const requestHeaders: HeaderValue[] = [];
  let overallCode: Code = "UNKNOWN";
  let rawBody: Buffer | undefined;
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === varintTag(1)) overallCode = readCode(reader, end);
    else if (tag === bytesTag(2)) statuses.push(readStatus(reader, reader.readEnd(end)));
    else if (tag === bytesTag(3)) responseHeaders.push(readHeader(message, reader, reader.readEnd(end)));
    else if (tag === bytesTag(4)) requestHeaders.push(readHeader(message, reader, reader.readEnd(end)));
    else if (tag === bytesTag(5)) rawBody = readBytes(message, reader, end);
    else skipUnknown(reader, tag, end, 5);
  }
  return {
    overallCode,
    statuses,
    responseHeaders,
    requestHeaders,
    rawBody: rawBody?.length === 0 ? undefined : rawBody,
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
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === varintTag(1)) code = readCode(reader, end);
    else if (tag === bytesTag(2)) limit = readLimit(reader, reader.readEnd(end));
    else if (tag === varintTag(3)) remaining = reader.readUint32(end);
    else if (tag === bytesTag(4)) resetMs = readDuration(reader, reader.readEnd(end));
    else skipUnknown(reader, tag, end, 4);
  }
  return { code, limit, remaining, resetMs };
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

/** google.protobuf.UInt32Value; 0 is as good as none. */
function readMultiplier(reader: WireReader, end: number): number {
  let value = 0;
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === varintTag(1)) value = reader.readUint32(end);
    else skipUnknown(reader, tag, end, 1);
  }
  return Math.max(1, value);
}

/** Far beyond any window; a longer reset is nonsense. */
const maxResetSeconds = 10 * 31_536_000;

/** google.protobuf.Duration in milliseconds; undefined for one that is negative or absurd. */
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

/** A known field under a wire type that it does not have is a broken message, not an unknown field. */
function skipUnknown(reader: WireReader, tag: number, end: number, knownFields: number): void {
  if (tag >>> 3 <= knownFields) throw new WireError(`field ${tag >>> 3} has wire type ${tag & 7}`);
  reader.skip(tag, end);
}
