/**
 * Parses an xDS response from its bytes: a DiscoveryResponse, and its `RateLimitConfig` resources as `DomainSpec`s. The
 * parser works in pieces, because one response may contain a hundred thousand descriptors, and calls are decided in
 * between. Field numbers and types: protos/proto/ratelimit and protos/proto/envoy/service/discovery.
 */
import { WireError, WireReader, WireType } from "@gatewayproxy/protos/wire-reader";
import type { JsonObject, JsonValue } from "../../model/rate-limit.ts";
import type { DescriptorSpec, DomainSpec, RateLimitSpec, ReplacesSpec } from "../descriptor-spec.ts";

/** The resource type that the service subscribes to. */
export const rateLimitConfigType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/** Maximum number of resources of a response. */
export const maxResources = 10_000;
/**
 * Maximum depth of descriptors, and of values in metadata. A call has 32 entries at most, unless a setting says
 * otherwise.
 */
const maxDepth = 64;

/** `envoy.service.discovery.v3.DiscoveryResponse`, with its resources as bytes. */
export interface DiscoveryResponse {
  readonly versionInfo: string;
  readonly nonce: string;
  /** Each is a google.protobuf.Any; at most `maxResources` of them. */
  readonly resources: readonly Buffer[];
  /** Number of resources. */
  readonly resourceCount: number;
}

const units = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"];

const bytesTag = (field: number): number => (field << 3) | WireType.Bytes;
const varintTag = (field: number): number => (field << 3) | WireType.Varint;

/** @throws WireError when the bytes are not a DiscoveryResponse */
export function readDiscoveryResponse(message: Buffer): DiscoveryResponse {
  const reader = new WireReader(message);
  const end = message.length;
  const resources: Buffer[] = [];
  let [versionInfo, nonce, resourceCount] = ["", "", 0];
  while (reader.position < end) {
    const tag = reader.readTag(end);
    if (tag === bytesTag(1)) {
      versionInfo = reader.readString(end);
    } else if (tag === bytesTag(2)) {
      const stop = reader.readEnd(end);
      if (resourceCount++ < maxResources) resources.push(message.subarray(reader.position, stop));
      reader.position = stop;
    } else if (tag === bytesTag(5)) {
      nonce = reader.readString(end);
    } else {
      reader.skip(tag, end);
    }
  }
  return { versionInfo, nonce, resources, resourceCount };
}

/** Counts the descriptors of a response. */
export class DescriptorCount {
  readonly #max: number;
  #count = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** @throws WireError beyond the maximum */
  add(): void {
    if (++this.#count > this.#max) {
      throw new WireError(`more than ${this.#max} descriptors, which XDS_CLIENT_MAX_DESCRIPTORS accepts`);
    }
  }
}

/**
 * Reads a resource, a google.protobuf.Any, in pieces.
 * @throws WireError with the reason when its bytes do not match the type, or exceed a bound
 */
export function* readXdsResource(bytes: Uint8Array, count: DescriptorCount): Generator<undefined, DomainSpec> {
  // Bytes from another thread arrive as a Uint8Array, not a Buffer.
  const resource = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const reader = new WireReader(resource);
  let type = "";
  let value: Buffer = Buffer.alloc(0);
  while (reader.position < resource.length) {
    const tag = reader.readTag(resource.length);
    if (tag === bytesTag(1)) {
      type = reader.readString(resource.length);
    } else if (tag === bytesTag(2)) {
      const stop = reader.readEnd(resource.length);
      value = resource.subarray(reader.position, stop);
      reader.position = stop;
    } else {
      reader.skip(tag, resource.length);
    }
  }
  if (type !== rateLimitConfigType) throw new WireError(`resource of type ${type}, accepted is ${rateLimitConfigType}`);
  return yield* new ResourceReader(value, count).config();
}

type Draft<T> = { -readonly [Field in keyof T]: T[Field] };

class ResourceReader {
  readonly #reader: WireReader;
  readonly #end: number;
  readonly #count: DescriptorCount;

  constructor(bytes: Buffer, count: DescriptorCount) {
    this.#reader = new WireReader(bytes);
    this.#end = bytes.length;
    this.#count = count;
  }

  *config(): Generator<undefined, DomainSpec> {
    const reader = this.#reader;
    const descriptors: DescriptorSpec[] = [];
    let [key, domain] = ["", ""];
    while (reader.position < this.#end) {
      const tag = reader.readTag(this.#end);
      if (tag === bytesTag(1)) key = reader.readString(this.#end);
      else if (tag === bytesTag(2)) domain = reader.readString(this.#end);
      else if (tag === bytesTag(3)) descriptors.push(yield* this.#descriptor(reader.readEnd(this.#end), 1));
      else this.#skipUnknown(tag, this.#end, 3);
    }
    return { key, domain, descriptors };
  }

  *#descriptor(end: number, depth: number): Generator<undefined, DescriptorSpec> {
    if (depth > maxDepth) throw new WireError(`descriptors are nested deeper than ${maxDepth} levels`);
    this.#count.add();
    yield;
    const reader = this.#reader;
    const descriptors: DescriptorSpec[] = [];
    // The resource has no fields for `valueToMetric` and `shareThreshold`.
    const spec: Draft<DescriptorSpec> = {
      ...{ key: "", value: "", descriptors, shadowMode: false, quotaMode: false, detailedMetric: false },
      ...{ valueToMetric: false, shareThreshold: false },
    };
    while (reader.position < end) {
      const tag = reader.readTag(end);
      if (tag === bytesTag(1)) {
        spec.key = reader.readString(end);
      } else if (tag === bytesTag(2)) {
        spec.value = reader.readString(end);
      } else if (tag === bytesTag(3)) {
        spec.rateLimit = yield* this.#policy(reader.readEnd(end), spec.rateLimit);
      } else if (tag === bytesTag(4)) {
        descriptors.push(yield* this.#descriptor(reader.readEnd(end), depth + 1));
      } else if (tag === varintTag(5)) {
        spec.shadowMode = reader.readVarint(end) !== 0;
      } else if (tag === varintTag(6)) {
        spec.detailedMetric = reader.readVarint(end) !== 0;
      } else if (tag === varintTag(7)) {
        spec.quotaMode = reader.readVarint(end) !== 0;
      } else if (tag === bytesTag(8)) {
        spec.metadata = { ...spec.metadata, ...(yield* this.#struct(reader.readEnd(end), 1)) };
      } else {
        this.#skipUnknown(tag, end, 8);
      }
    }
    return spec;
  }

  *#policy(end: number, earlier: RateLimitSpec | undefined): Generator<undefined, RateLimitSpec> {
    const reader = this.#reader;
    const replaces: ReplacesSpec[] = [...(earlier?.replaces ?? [])];
    const none = { unit: "UNKNOWN", requestsPerUnit: 0, unitMultiplier: 1, unlimited: false, name: "" };
    const policy: Draft<RateLimitSpec> = { ...none, ...earlier, replaces };
    while (reader.position < end) {
      const tag = reader.readTag(end);
      if (tag === varintTag(1)) {
        const unit = reader.readInt32(end);
        policy.unit = units[unit] ?? String(unit);
      } else if (tag === varintTag(2)) {
        policy.requestsPerUnit = reader.readUint32(end);
      } else if (tag === varintTag(3)) {
        policy.unlimited = reader.readVarint(end) !== 0;
      } else if (tag === bytesTag(4)) {
        policy.name = reader.readString(end);
      } else if (tag === bytesTag(5)) {
        replaces.push({ name: this.#text(reader.readEnd(end)) });
        yield;
      } else {
        this.#skipUnknown(tag, end, 5);
      }
    }
    return policy;
  }

  /** Reads a message whose field 1 is a string; the last one counts. */
  #text(end: number): string {
    const reader = this.#reader;
    let text = "";
    while (reader.position < end) {
      const tag = reader.readTag(end);
      if (tag === bytesTag(1)) text = reader.readString(end);
      else this.#skipUnknown(tag, end, 1);
    }
    return text;
  }

  /** Reads a google.protobuf.Struct. Of map entries with the same key, the last counts. */
  *#struct(end: number, depth: number): Generator<undefined, JsonObject> {
    const reader = this.#reader;
    const fields = new Map<string, JsonValue>();
    while (reader.position < end) {
      const tag = reader.readTag(end);
      if (tag !== bytesTag(1)) {
        this.#skipUnknown(tag, end, 1);
        continue;
      }
      const stop = reader.readEnd(end);
      let name = "";
      let value: JsonValue = null;
      while (reader.position < stop) {
        const inner = reader.readTag(stop);
        if (inner === bytesTag(1)) name = reader.readString(stop);
        else if (inner === bytesTag(2)) value = yield* this.#value(reader.readEnd(stop), depth + 1);
        else this.#skipUnknown(inner, stop, 2);
      }
      fields.set(name, value);
    }
    return Object.fromEntries(fields);
  }

  /** Reads a google.protobuf.Value: the last member of its oneof. */
  *#value(end: number, depth: number): Generator<undefined, JsonValue> {
    if (depth > maxDepth) throw new WireError(`metadata is nested deeper than ${maxDepth} levels`);
    yield;
    const reader = this.#reader;
    let value: JsonValue = null;
    while (reader.position < end) {
      const tag = reader.readTag(end);
      if (tag === varintTag(1)) {
        reader.readVarint(end);
        value = null;
      } else if (tag === ((2 << 3) | WireType.Fixed64)) {
        value = reader.readDouble(end);
      } else if (tag === bytesTag(3)) {
        value = reader.readString(end);
      } else if (tag === varintTag(4)) {
        value = reader.readVarint(end) !== 0;
      } else if (tag === bytesTag(5)) {
        value = yield* this.#struct(reader.readEnd(end), depth + 1);
      } else if (tag === bytesTag(6)) {
        value = yield* this.#list(reader.readEnd(end), depth + 1);
      } else {
        this.#skipUnknown(tag, end, 6);
      }
    }
    return value;
  }

  *#list(end: number, depth: number): Generator<undefined, JsonValue> {
    const reader = this.#reader;
    const values: JsonValue[] = [];
    while (reader.position < end) {
      const tag = reader.readTag(end);
      if (tag === bytesTag(1)) values.push(yield* this.#value(reader.readEnd(end), depth + 1));
      else this.#skipUnknown(tag, end, 1);
    }
    return values;
  }

  /** Skips an unknown field. A known field with a wrong wire type is an error. */
  #skipUnknown(tag: number, end: number, knownFields: number): void {
    if (tag >>> 3 <= knownFields) throw new WireError(`field ${tag >>> 3} has wire type ${tag & 7}`);
    this.#reader.skip(tag, end);
  }
}
