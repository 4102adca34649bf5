/** The reader of resources against a general codec. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { runAtOnce } from "../run-in-slices.ts";
import { configMessage } from "./testing/xds-server.ts";
import { DescriptorCount, rateLimitConfigType, readXdsResource } from "./xds-resource.ts";

const name = fc.string({ maxLength: 6 });
const units = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"] as const;

const policy = fc.record({
  unit: fc.constantFrom(...units),
  requestsPerUnit: fc.nat(0xffff_ffff),
  unlimited: fc.boolean(),
  name,
  replaces: fc.array(fc.record({ name }), { maxLength: 2 }),
});

/** What JSON can say; a Struct says the same. */
const json = fc.jsonValue({ maxDepth: 3 }).filter((value) => !JSON.stringify(value).includes("__proto__"));
const metadata = fc.dictionary(fc.string({ minLength: 1, maxLength: 4, unit: "grapheme-ascii" }), json, { maxKeys: 3 });

/** A descriptor with at most so many levels below. */
function descriptorOf(levels: number): fc.Arbitrary<Descriptor> {
  return fc.record({
    key: name,
    value: name,
    rateLimit: fc.option(policy),
    descriptors: levels === 0 ? fc.constant([]) : fc.array(descriptorOf(levels - 1), { maxLength: 2 }),
    shadowMode: fc.boolean(),
    detailedMetric: fc.boolean(),
    quotaMode: fc.boolean(),
    metadata: fc.option(metadata),
  });
}

interface Descriptor {
  readonly key: string;
  readonly value: string;
  readonly rateLimit: typeof policy extends fc.Arbitrary<infer Policy> ? Policy | null : never;
  readonly descriptors: readonly Descriptor[];
  readonly shadowMode: boolean;
  readonly detailedMetric: boolean;
  readonly quotaMode: boolean;
  readonly metadata: Readonly<Record<string, unknown>> | null;
}

test("reads what a general codec writes", () => {
  const config = fc.record({ name, domain: name, descriptors: fc.array(descriptorOf(3), { maxLength: 3 }) });
  fc.assert(
    fc.property(config, (given) => {
      const bytes = configMessage.serialize({ ...given, descriptors: given.descriptors.map(messageOf) });
      const spec = runAtOnce(readXdsResource(anyOf(bytes), new DescriptorCount(1_000)));
      expect(spec).toEqual({
        key: given.name,
        domain: given.domain,
        descriptors: given.descriptors.map(specOf),
      });
    }),
    { numRuns: 200 },
  );
});

test("whatever the bytes are, they are read or rejected with a reason", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      try {
        runAtOnce(readXdsResource(anyOf(Buffer.from(bytes)), new DescriptorCount(1_000)));
      } catch (error) {
        expect(String(error)).toMatch(/^WireError: ./);
      }
    }),
    { numRuns: 2_000 },
  );
});

/** A google.protobuf.Any with a resource. */
function anyOf(value: Buffer): Buffer {
  const type = Buffer.from(rateLimitConfigType);
  return Buffer.concat([Buffer.from([0x0a, type.length]), type, Buffer.from([0x12]), varint(value.length), value]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    bytes.push(rest < 128 ? rest : (rest % 128) | 0x80);
    if (rest < 128) return Buffer.from(bytes);
  }
}

function messageOf({ descriptors, metadata: fields, ...rest }: Descriptor): object {
  return {
    ...rest,
    descriptors: descriptors.map(messageOf),
    metadata: fields === null ? null : structOf(fields),
  };
}

function structOf(fields: Readonly<Record<string, unknown>>): object {
  return { fields: Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, valueOf(value)])) };
}

function valueOf(value: unknown): object {
  if (value === null) return { nullValue: "NULL_VALUE" };
  if (typeof value === "number") return { numberValue: value };
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (Array.isArray(value)) return { listValue: { values: value.map(valueOf) } };
  return { structValue: structOf(value as Readonly<Record<string, unknown>>) };
}

function specOf({ rateLimit, metadata: fields, descriptors, ...rest }: Descriptor): object {
  return {
    ...rest,
    ...(rateLimit === null ? {} : { rateLimit: { ...rateLimit, unitMultiplier: 1 } }),
    descriptors: descriptors.map(specOf),
    valueToMetric: false,
    shareThreshold: false,
    ...(fields === null ? {} : { metadata: fields }),
  };
}
