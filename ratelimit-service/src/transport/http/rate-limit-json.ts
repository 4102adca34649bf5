/**
 * The rate limit messages in proto3 JSON (protobuf.dev, "JSON Mapping"), for `/json`. Requests are parsed as strictly
 * as in envoyproxy/ratelimit: field names in camelCase or as in the .proto file, unknown ones rejected. Problems are
 * reported with their locations, up to `maxProblems`. Responses omit fields with default values.
 */
import { isUtf8 } from "node:buffer";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { redactText } from "@gatewayproxy/runtime/redaction";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { type CallBounds, defaultCallBounds, tooManyMessage, tooLongMessage } from "../../limiter/call-bounds.ts";
import type {
  CurrentLimit,
  Descriptor,
  DescriptorEntry,
  DescriptorStatus,
  LimitOverride,
  RateLimitRequest,
  RateLimitResponse,
} from "../../model/rate-limit.ts";

/** Parsing stops at this many problems: each costs memory for its path and message. */
const maxProblems = 20;

/**
 * Parses a request within `bounds`. Every problem has the path of its field, such as `descriptors[0].entries[1].key`.
 * There are at most `maxProblems`.
 */
export function parseRateLimitJson(bytes: Buffer, bounds: CallBounds = defaultCallBounds): Result<RateLimitRequest> {
  if (!isUtf8(bytes)) return { ok: false, problems: [{ message: "not JSON: the text is not UTF-8" }] };
  const text = bytes.toString();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // The text after the first comma quotes the body.
    const [reason = ""] = errorMessage(error).split(",");
    return { ok: false, problems: [{ message: `not JSON: ${reason}` }] };
  }
  const repeated = repeatedField(text);
  if (repeated !== undefined) {
    return { ok: false, problems: [{ path: truncate(repeated), message: "the field is duplicate" }] };
  }
  const reader = new JsonMessageReader(bounds);
  try {
    const request = reader.request(value);
    if (reader.problems.length === 0) return { ok: true, value: request };
  } catch (error) {
    if (!(error instanceof TooManyProblems)) throw error;
  }
  return { ok: false, problems: reader.problems };
}

/** Ends the parsing of a request that has `maxProblems`. */
class TooManyProblems extends Error {}

/** Maps the accepted names of a message's fields, camelCase and snake_case, to their camelCase names. */
type FieldNames = ReadonlyMap<string, string>;

function fieldNames(...names: readonly string[]): FieldNames {
  return new Map(names.flatMap((name) => [[name, name] as const, [snakeCase(name), name] as const]));
}

const requestFields = fieldNames("domain", "descriptors", "hitsAddend");
const descriptorFields = fieldNames("entries", "limit", "hitsAddend", "isNegativeHits");
const entryFields = fieldNames("key", "value");
const overrideFields = fieldNames("requestsPerUnit", "unit", "unitMultiplier");

/** Fields of a message by their camelCase names, without absent and `null` ones. */
type Fields = ReadonlyMap<string, unknown>;

/** By number; the last has no name, see the gRPC codec. */
const overrideUnits = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"];
const overrideUnitNames = overrideUnits.slice(0, -1);

class JsonMessageReader {
  readonly problems: Problem[] = [];
  readonly #bounds: CallBounds;

  constructor(bounds: CallBounds) {
    this.#bounds = bounds;
  }

  request(value: unknown): RateLimitRequest {
    const fields = this.#fields(value, "", requestFields);
    const { maxDescriptors } = this.#bounds;
    return {
      domain: this.#string(fields, "domain", ""),
      descriptors: this.#list(fields, "descriptors", "", maxDescriptors, (item, path) => this.#descriptor(item, path)),
      hitsAddend: this.#uint(fields, "hitsAddend", "", 32) ?? 0,
    };
  }

  #descriptor(value: unknown, path: string): Descriptor {
    const fields = this.#fields(value, path, descriptorFields);
    const hitsAddend = this.#uint(fields, "hitsAddend", path, 64);
    const isNegativeHits = this.#boolean(fields, "isNegativeHits", path);
    return {
      entries: this.#list(fields, "entries", path, this.#bounds.maxEntries, (item, itemPath) =>
        this.#entry(item, itemPath),
      ),
      ...(fields.has("limit") ? { limit: this.#override(fields.get("limit"), join(path, "limit")) } : {}),
      ...(hitsAddend === undefined ? {} : { hitsAddend }),
      ...(isNegativeHits === true ? { isNegativeHits } : {}),
    };
  }

  #entry(value: unknown, path: string): DescriptorEntry {
    const fields = this.#fields(value, path, entryFields);
    return { key: this.#string(fields, "key", path), value: this.#string(fields, "value", path) };
  }

  #override(value: unknown, path: string): LimitOverride {
    const fields = this.#fields(value, path, overrideFields);
    const unitMultiplier = this.#uint(fields, "unitMultiplier", path, 32);
    return {
      requestsPerUnit: this.#uint(fields, "requestsPerUnit", path, 32) ?? 0,
      unit: this.#unit(fields, path),
      ...(unitMultiplier === undefined ? {} : { unitMultiplier }),
    };
  }

  #unit(fields: Fields, path: string): string {
    const value = fields.get("unit");
    if (value === undefined) return "UNKNOWN";
    if (typeof value === "number" && Number.isInteger(value)) return overrideUnits[value] ?? String(value);
    if (typeof value === "string" && overrideUnitNames.includes(value)) return value;
    this.#report(
      join(path, "unit"),
      `${formatValue(value)} is no unit, accepted are ${overrideUnitNames.slice(1).join(", ")}`,
    );
    return "UNKNOWN";
  }

  #fields(value: unknown, path: string, names: FieldNames): Fields {
    const fields = new Map<string, unknown>();
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      this.#report(path, `${formatValue(value)} is not an object`);
      return fields;
    }
    for (const [rawName, content] of Object.entries(value)) {
      const name = names.get(rawName);
      if (name === undefined) {
        const accepted = [...new Set(names.values())].join(", ");
        this.#report(join(path, truncate(rawName)), `unknown field; accepted fields are ${accepted}`);
      } else if (fields.has(name)) {
        this.#report(join(path, rawName), "the field is duplicate");
      } else if (content !== null) {
        fields.set(name, content);
      }
    }
    return fields;
  }

  #list<T>(
    fields: Fields,
    name: "descriptors" | "entries",
    path: string,
    max: number,
    read: (value: unknown, path: string) => T,
  ): readonly T[] {
    const value = fields.get(name) ?? [];
    const listPath = join(path, name);
    if (!Array.isArray(value)) {
      this.#report(listPath, `${formatValue(value)} is not a list`);
    } else if (value.length > max) {
      this.#report(listPath, tooManyMessage(path === "" ? "the call" : "the descriptor", max, name));
    } else {
      return value.map((item, index) => read(item, `${listPath}[${index}]`));
    }
    return [];
  }

  #string(fields: Fields, name: string, path: string): string {
    const value = fields.get(name) ?? "";
    const { maxTextLength } = this.#bounds;
    if (typeof value !== "string") {
      this.#report(join(path, name), `${formatValue(value)} is not a string`);
    } else if (!value.isWellFormed()) {
      this.#report(join(path, name), "the text holds half of a surrogate pair");
    } else if (value.length > maxTextLength) {
      this.#report(join(path, name), tooLongMessage(`the ${name}`, value.length, maxTextLength));
    } else {
      return value;
    }
    return "";
  }

  #boolean(fields: Fields, name: string, path: string): boolean | undefined {
    const value = fields.get(name);
    if (value === undefined || typeof value === "boolean") return value;
    this.#report(join(path, name), `${formatValue(value)} is not true or false`);
    return undefined;
  }

  /** Parses a number, or its decimal text. A uint64 is rounded to the nearest number of 53 bits. */
  #uint(fields: Fields, name: string, path: string, bits: 32 | 64): number | undefined {
    const value = fields.get(name);
    if (value === undefined) return undefined;
    const number = typeof value === "string" && jsonNumber.test(value) ? Number(value) : value;
    if (typeof number === "number" && Number.isInteger(number) && number >= 0 && number <= 2 ** bits - 1) return number;
    this.#report(join(path, name), `${formatValue(value)} is not a whole number from 0 to 2^${bits}-1`);
    return undefined;
  }

  #report(path: string, message: string): void {
    this.problems.push({ path: path === "" ? "body" : path, message });
    if (this.problems.length === maxProblems) throw new TooManyProblems();
  }
}

/** Matches a number in the grammar of JSON, which may also be in a string. */
const jsonNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Returns the name of a duplicate field in one object of `json`, which is valid JSON; `undefined` without one. */
function repeatedField(json: string): string | undefined {
  /** The fields of the enclosing objects, from the outside in; `undefined` for lists. */
  const enclosing: (Set<unknown> | undefined)[] = [];
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"\s*:?|[{}[\]]/g)) {
    if (token === "{" || token === "[") {
      enclosing.push(token === "{" ? new Set() : undefined);
    } else if (token === "}" || token === "]") {
      enclosing.pop();
    } else if (token.endsWith(":")) {
      const name: unknown = JSON.parse(token.slice(0, -1));
      const fields = enclosing.at(-1);
      if (fields?.has(name) === true) return String(name);
      fields?.add(name);
    }
  }
  return undefined;
}

function join(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Formats a value for a message, in short. Lists and objects are only named, since they may be large and deep. */
function formatValue(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  return JSON.stringify(typeof value === "string" ? truncate(value) : value);
}

/** Redacts credentials: the response may be logged by a proxy. */
function truncate(text: string): string {
  const shown = redactText(text);
  return shown.length > 60 ? `${shown.slice(0, 57)}…` : shown;
}

/** Renders the response as JSON. */
export function renderRateLimitJson(response: RateLimitResponse): string {
  return JSON.stringify({
    ...(response.overallCode === "UNKNOWN" ? {} : { overallCode: response.overallCode }),
    ...(response.statuses.length === 0 ? {} : { statuses: response.statuses.map(jsonStatus) }),
    ...(response.responseHeaders.length === 0 ? {} : { responseHeadersToAdd: response.responseHeaders }),
    ...(response.rawBody === undefined ? {} : { rawBody: Buffer.from(response.rawBody).toString("base64") }),
    ...(response.dynamicMetadata === undefined ? {} : { dynamicMetadata: response.dynamicMetadata }),
  });
}

function jsonStatus(status: DescriptorStatus): object {
  const { code, currentLimit, limitRemaining, durationUntilResetSeconds: seconds } = status;
  return {
    ...(code === "UNKNOWN" ? {} : { code }),
    ...(currentLimit === undefined ? {} : { currentLimit: jsonLimit(currentLimit) }),
    ...(limitRemaining === 0 ? {} : { limitRemaining }),
    ...(seconds === undefined ? {} : { durationUntilReset: `${seconds}s` }),
  };
}

function jsonLimit(limit: CurrentLimit): object {
  return {
    ...(limit.requestsPerUnit === 0 ? {} : { requestsPerUnit: limit.requestsPerUnit }),
    unit: limit.unit,
    ...(limit.name === undefined ? {} : { name: limit.name }),
    ...(limit.unitMultiplier === undefined ? {} : { unitMultiplier: limit.unitMultiplier }),
  };
}
