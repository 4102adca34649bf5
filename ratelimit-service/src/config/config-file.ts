/**
 * Parses one YAML file into a `DomainSpec`, or into the list of all its structural problems. Keys are checked as in
 * envoyproxy/ratelimit: any known key may be anywhere, and an unknown one is an error. A known key in the wrong place
 * is a warning here, because envoyproxy/ratelimit ignores it and existing files must keep loading.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import type { JsonObject, JsonValue } from "../model/rate-limit.ts";
import type { ConfigProblem } from "./config-problem.ts";
import type { DescriptorSpec, DomainSpec, RateLimitSpec, RateLimitsSpec, ReplacesSpec } from "./descriptor-spec.ts";
import {
  isTrue,
  loadingProblem,
  numberOf,
  readYaml,
  type YamlMap,
  type YamlScalar,
  type YamlValue,
} from "./yaml-value.ts";

const maxUint32 = 4_294_967_295;

/** The keys that are read in each kind of mapping, with the extensions of this service. */
const keysOf = {
  file: ["domain", "descriptors"],
  descriptor: [
    "key",
    "value",
    "rate_limit",
    "rate_limits",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "count_denied",
    "metadata",
  ],
  rate_limit: [
    "unit",
    "requests_per_unit",
    "unit_multiplier",
    "calendar",
    "timezone",
    "window",
    "unlimited",
    "name",
    "replaces",
  ],
  replaces: ["name"],
} as const;

type Section = keyof typeof keysOf;

const knownKeys: readonly string[] = [...new Set(Object.values(keysOf).flat())];

/** Keys that the reference rejects. No existing file has one in the wrong place, where it would change nothing. */
const strictKeys: readonly string[] = ["calendar", "timezone", "window", "rate_limits", "count_denied"];

/** A file that was parsed, with its warnings. */
export interface ParsedConfigFile {
  /** The part that could be read, for further checks even when there are problems; absent if nothing could be read. */
  readonly spec?: DomainSpec;
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
}

/**
 * Parses a configuration file.
 * @param key name of the file in messages, as in envoyproxy/ratelimit: `config.limits.yaml`
 * @param file the path for locations
 */
export function parseConfigFile(key: string, file: string, text: string): ParsedConfigFile {
  const document = readYaml(text, file);
  const reader = new FileReader(key);
  reader.addFindings(document.problems, document.warnings);
  const start: SourceLocation = { file, line: 1, column: 1 };
  const root = document.value ?? { kind: "map", entries: [], location: start };
  if (root.kind !== "map") {
    reader.problem(
      loadingProblem(`found a ${root.kind}, expected a mapping with domain and descriptors`, root.location),
    );
  }
  const outcome = { problems: reader.problems, warnings: reader.warnings };
  if (root.kind !== "map" || reader.problems.length > 0) return outcome;
  reader.checkKeys(root);
  return { spec: reader.domain(root), ...outcome };
}

class FileReader {
  readonly problems: ConfigProblem[] = [];
  readonly warnings: ConfigProblem[] = [];
  readonly #key: string;

  constructor(key: string) {
    this.#key = key;
  }

  problem(problem: ConfigProblem): void {
    this.problems.push({ ...problem, resource: this.#key });
  }

  addFindings(problems: readonly ConfigProblem[], warnings: readonly ConfigProblem[]): void {
    for (const problem of problems) this.problem(problem);
    for (const warning of warnings) this.warnings.push({ ...warning, resource: this.#key });
  }

  /** Checks that every key of the whole file is known and every scalar has a type that some key accepts. */
  checkKeys(map: YamlMap): void {
    for (const { key, value } of map.entries) {
      if (key.type !== "string") {
        this.problem({ message: `config error, key is not of type string: ${key.text}`, location: key.location });
      } else if (!knownKeys.includes(key.text)) {
        this.problem({
          message: `config error, unknown key '${key.text}'`,
          location: key.location,
          ...suggestionFor(key.text),
        });
      } else if (key.text !== "metadata") {
        this.#checkValue(value);
      }
    }
  }

  #checkValue(value: YamlValue): void {
    switch (value.kind) {
      case "map":
        this.checkKeys(value);
        return;
      case "list":
        for (const item of value.items) {
          if (item.kind === "map") {
            this.checkKeys(item);
          } else {
            const found = item.kind === "scalar" ? item.text : "a list";
            const message = `config error, yaml file contains list of type other than map: ${found}`;
            this.problem({ message, location: item.location });
          }
        }
        return;
      case "scalar":
        if (value.type === "float") {
          const hint = `found the number ${value.text}, no key takes a fraction; quote it if it is a text`;
          this.problem({ message: "error checking config", location: value.location, hint });
        }
    }
  }

  domain(root: YamlMap): DomainSpec {
    const fields = this.#fields(root, "file");
    return {
      key: this.#key,
      domain: this.#text(fields, "domain"),
      descriptors: this.#maps(fields, "descriptors").map((item) => this.#descriptor(item)),
      location: fields.get("domain")?.location ?? root.location,
    };
  }

  #descriptor(map: YamlMap): DescriptorSpec {
    const fields = this.#fields(map, "descriptor");
    const rateLimit = fields.get("rate_limit");
    const metadata = fields.get("metadata");
    return {
      key: this.#text(fields, "key"),
      value: this.#text(fields, "value"),
      ...this.#rateLimit(rateLimit),
      ...this.#rateLimits(fields),
      descriptors: this.#maps(fields, "descriptors").map((item) => this.#descriptor(item)),
      shadowMode: this.#flag(fields, "shadow_mode"),
      quotaMode: this.#flag(fields, "quota_mode"),
      detailedMetric: this.#flag(fields, "detailed_metric"),
      valueToMetric: this.#flag(fields, "value_to_metric"),
      shareThreshold: this.#flag(fields, "share_threshold"),
      countDenied: this.#flag(fields, "count_denied"),
      ...(isPresent(metadata) ? { metadata: this.#metadata(metadata) } : {}),
      location: map.location,
    };
  }

  #rateLimits(fields: ReadonlyMap<string, YamlValue>): { readonly rateLimits?: RateLimitsSpec } {
    const value = fields.get("rate_limits");
    if (!isPresent(value)) return {};
    const limits = this.#maps(fields, "rate_limits").map((item) => this.#limit(item));
    // A value that is no list is reported already.
    return value.kind === "list" ? { rateLimits: { limits, location: value.location } } : {};
  }

  #rateLimit(value: YamlValue | undefined): { readonly rateLimit?: RateLimitSpec } {
    if (!isPresent(value)) return {};
    if (value.kind !== "map") {
      this.#reportType("rate_limit", value, "a mapping with unit and requests_per_unit");
      return {};
    }
    return { rateLimit: this.#limit(value) };
  }

  #limit(value: YamlMap): RateLimitSpec {
    const fields = this.#fields(value, "rate_limit");
    const unlimited = this.#flag(fields, "unlimited");
    if (!unlimited && !isPresent(fields.get("requests_per_unit"))) {
      const message = "requests_per_unit is missing, so every call is denied";
      this.warnings.push({ message, resource: this.#key, location: value.location });
    }
    const windowKey = ["window", "timezone", "calendar"].find((key) => fields.has(key));
    const windowLocation = windowKey === undefined ? undefined : fields.get(windowKey)?.location;
    return {
      unit: this.#text(fields, "unit"),
      requestsPerUnit: this.#uint32(fields, "requests_per_unit") ?? 0,
      unitMultiplier: this.#uint32(fields, "unit_multiplier") ?? 1,
      calendar: this.#flag(fields, "calendar"),
      timezone: this.#text(fields, "timezone"),
      window: this.#text(fields, "window"),
      unlimited,
      name: this.#text(fields, "name"),
      replaces: this.#maps(fields, "replaces").map((item) => this.#replaces(item)),
      location: value.location,
      unitLocation: fields.get("unit")?.location ?? value.location,
      ...(windowLocation === undefined ? {} : { windowLocation }),
    };
  }

  #replaces(map: YamlMap): ReplacesSpec {
    return { name: this.#text(this.#fields(map, "replaces"), "name"), location: map.location };
  }

  #metadata(value: YamlValue): JsonObject {
    if (value.kind !== "map") {
      this.#reportType("metadata", value, "a mapping");
      return {};
    }
    return this.#jsonObject(value);
  }

  #jsonObject(map: YamlMap): JsonObject {
    return Object.fromEntries(map.entries.map(({ key, value }) => [key.text, this.#json(value)]));
  }

  #json(value: YamlValue): JsonValue {
    if (value.kind === "map") return this.#jsonObject(value);
    if (value.kind === "list") return value.items.map((item) => this.#json(item));
    switch (value.type) {
      case "null":
        return null;
      case "boolean":
        return isTrue(value);
      case "string":
        return value.text;
      case "integer":
      case "float":
        return this.#jsonNumber(value);
    }
  }

  #jsonNumber(scalar: YamlScalar): number {
    const number = numberOf(scalar);
    if (!Number.isFinite(number)) {
      const message = `error parsing metadata: ${scalar.text} is not a finite number`;
      this.problem({ message, location: scalar.location });
    }
    return number;
  }

  /** Returns the fields of a map by key. Warns of known keys that are not read in this kind of mapping. */
  #fields(map: YamlMap, section: Section): ReadonlyMap<string, YamlValue> {
    const meaningful: readonly string[] = keysOf[section];
    for (const { key } of map.entries) {
      if (meaningful.includes(key.text) || !knownKeys.includes(key.text)) continue;
      const subject = `key '${key.text}' means nothing in a ${section.replace("_", " ")}`;
      if (strictKeys.includes(key.text)) {
        const hint = `accepted in ${sectionsOf(key.text)}`;
        this.problem({ message: `config error, ${subject}`, location: key.location, hint });
        continue;
      }
      const message = `${subject} and is ignored`;
      this.warnings.push({ message, resource: this.#key, location: key.location });
    }
    return new Map(map.entries.map(({ key, value }) => [key.text, value]));
  }

  #text(fields: ReadonlyMap<string, YamlValue>, key: string): string {
    const value = fields.get(key);
    if (value === undefined) return "";
    if (value.kind === "scalar") return value.text;
    this.#reportType(key, value, "a text");
    return "";
  }

  #flag(fields: ReadonlyMap<string, YamlValue>, key: string): boolean {
    const value = fields.get(key);
    if (!isPresent(value)) return false;
    if (value.kind === "scalar" && value.type === "boolean") return isTrue(value);
    this.#reportType(key, value, "true or false");
    return false;
  }

  #uint32(fields: ReadonlyMap<string, YamlValue>, key: string): number | undefined {
    const value = fields.get(key);
    if (!isPresent(value)) return undefined;
    if (value.kind === "scalar" && value.type === "integer") {
      const number = numberOf(value);
      if (number >= 0 && number <= maxUint32) return number;
    }
    this.#reportType(key, value, `a whole number from 0 to ${maxUint32}`);
    return undefined;
  }

  #maps(fields: ReadonlyMap<string, YamlValue>, key: string): readonly YamlMap[] {
    const value = fields.get(key);
    if (!isPresent(value)) return [];
    if (value.kind === "list") return value.items.filter((item) => item.kind === "map");
    this.#reportType(key, value, "a list");
    return [];
  }

  #reportType(key: string, value: YamlValue, expected: string): void {
    const found = value.kind === "scalar" ? formatScalar(value) : `a ${value.kind === "map" ? "mapping" : "list"}`;
    this.problem(loadingProblem(`${key} must be ${expected}, found ${found}`, value.location));
  }
}

/** Returns the kinds of mappings that have a key, for messages. */
function sectionsOf(key: string): string {
  return Object.entries(keysOf)
    .filter(([, keys]) => (keys as readonly string[]).includes(key))
    .map(([section]) => `a ${section.replace("_", " ")}`)
    .join(" and ");
}

function isPresent(value: YamlValue | undefined): value is YamlValue {
  return value !== undefined && !(value.kind === "scalar" && value.type === "null");
}

/**
 * Formats a scalar for a message. A string is marked as such, because quoted numbers and booleans are a common error.
 */
function formatScalar({ type, text }: YamlScalar): string {
  return type === "string" ? `the text '${text}'` : `'${text}'`;
}

/** Returns `did you mean 'rate_limit'?` for a key that differs from a known one only in case, separators and an `s`. */
function suggestionFor(key: string): { readonly hint?: string } {
  const withoutSeparators = (text: string) => text.toLowerCase().replaceAll(/[-_\s]/g, "");
  const normalize = (text: string) => withoutSeparators(text).replaceAll("s", "");
  const match =
    knownKeys.find((known) => withoutSeparators(known) === withoutSeparators(key)) ??
    knownKeys.find((known) => normalize(known) === normalize(key));
  return match === undefined ? { hint: `accepted: ${knownKeys.join(", ")}` } : { hint: `did you mean '${match}'?` };
}
