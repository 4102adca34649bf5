/**
 * The variables of the OpenTelemetry specification ("Environment Variable Specification", "OTLP Exporter Configuration")
 * that configure traces. The exporter itself reads OTEL_EXPORTER_OTLP_* for headers, timeouts, compression and
 * certificates, so that no secret is in our settings; here they are validated.
 */
import type { Problem, Result } from "../text/problem.ts";
import { type Propagator, propagatorNames } from "./propagation.ts";
import { samplerNames, type SamplerSettings } from "./sampling.ts";

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** How OTLP is sent. */
export type OtlpProtocol = "grpc" | "http/protobuf";

/** The settings of traces. Plain data, which threads may share. */
export interface TracingSettings {
  readonly protocol: OtlpProtocol;
  readonly sampler: SamplerSettings;
  readonly propagators: readonly Propagator[];
  /** Of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, without defaults of the program. */
  readonly resource: Readonly<Record<string, string>>;
  readonly batch: BatchSettings;
  /** The values of OTEL_SEMCONV_STABILITY_OPT_IN. */
  readonly semconvOptIn: readonly string[];
}

/** The bounds of the queue of spans in each thread. */
export interface BatchSettings {
  readonly scheduledDelayMs: number;
  readonly exportTimeoutMs: number;
  readonly maxQueueSize: number;
  readonly maxExportBatchSize: number;
}

/** The defaults that differ between programs. */
export interface TracingDefaults {
  /** Whether spans are exported although no variable of OpenTelemetry asks for it. */
  readonly isOn?: boolean;
  /** Whether an endpoint alone switches traces on. */
  readonly endpointSwitchesOn: boolean;
  readonly protocol?: OtlpProtocol;
  readonly sampler?: SamplerSettings;
  /** Attributes of the resource, such as `service.name`; variables override them. */
  readonly resource: Readonly<Record<string, string>>;
}

const endpointVariables = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"] as const;
const headerVariables = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"] as const;
const defaultSampler: SamplerSettings = { isParentBased: true, ratio: 1 };

/** Reads the settings of traces; `value` is undefined if they are off. */
export function readTracingSettings(env: Environment, defaults: TracingDefaults): Result<TracingSettings | undefined> {
  const reader = new VariableReader(env);
  const isDisabled = reader.boolean("OTEL_SDK_DISABLED") === true;
  const isOn = readExporter(reader, defaults) && !isDisabled;
  const settings: TracingSettings = {
    protocol: readProtocol(reader, defaults),
    sampler: readSampler(reader, defaults),
    propagators: readPropagators(reader),
    resource: readResource(reader, defaults),
    batch: readBatch(reader),
    semconvOptIn: reader.list("OTEL_SEMCONV_STABILITY_OPT_IN"),
  };
  for (const name of endpointVariables) reader.endpoint(name);
  for (const name of headerVariables) reader.headers(name);
  reader.integer("OTEL_EXPORTER_OTLP_TIMEOUT", 1, 3_600_000);
  reader.integer("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", 1, 3_600_000);
  // Variables of traces that are off must not prevent a start: they may be those of a whole cluster.
  if (!isOn) return reader.problemsOf("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER") ?? { ok: true, value: undefined };
  return reader.problems.length > 0 ? { ok: false, problems: reader.problems } : { ok: true, value: settings };
}

function readExporter(reader: VariableReader, { isOn = false, endpointSwitchesOn }: TracingDefaults): boolean {
  const exporters = reader.list("OTEL_TRACES_EXPORTER");
  const unknown = exporters.find((name) => name !== "otlp" && name !== "none");
  if (unknown !== undefined || exporters.length > 1) {
    reader.reject("OTEL_TRACES_EXPORTER", "one of otlp, none");
    return false;
  }
  if (exporters.length === 1) return exporters[0] === "otlp";
  return isOn || (endpointSwitchesOn && endpointVariables.some((name) => reader.text(name) !== undefined));
}

function readProtocol(reader: VariableReader, { protocol = "http/protobuf" }: TracingDefaults): OtlpProtocol {
  const variable = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"].find(
    (name) => reader.text(name) !== undefined,
  );
  if (variable === undefined) return protocol;
  const value = reader.text(variable);
  if (value === "grpc" || value === "http/protobuf") return value;
  reader.reject(variable, "one of grpc, http/protobuf");
  return protocol;
}

function readSampler(reader: VariableReader, { sampler = defaultSampler }: TracingDefaults): SamplerSettings {
  const text = reader.text("OTEL_TRACES_SAMPLER");
  if (text === undefined) return sampler;
  const name = samplerNames.find((known) => known === text.toLowerCase());
  if (name === undefined) {
    reader.reject("OTEL_TRACES_SAMPLER", `one of ${samplerNames.join(", ")}`);
    return sampler;
  }
  const isParentBased = name.startsWith("parentbased_");
  if (name.endsWith("always_on")) return { isParentBased, ratio: 1 };
  if (name.endsWith("always_off")) return { isParentBased, ratio: 0 };
  return { isParentBased, ratio: reader.ratio("OTEL_TRACES_SAMPLER_ARG") ?? 1 };
}

function readPropagators(reader: VariableReader): readonly Propagator[] {
  const names = reader.list("OTEL_PROPAGATORS");
  if (names.length === 0) return ["tracecontext", "baggage"];
  if (names.includes("none")) return [];
  const known = names.flatMap((name) => propagatorNames.find((propagator) => propagator === name) ?? []);
  if (known.length < names.length) {
    reader.reject("OTEL_PROPAGATORS", `none, or a list of ${propagatorNames.join(", ")}`);
  }
  return [...new Set(known)];
}

/** `key=value` pairs with percent-encoded values, separated by commas (Resource SDK). */
function readResource(reader: VariableReader, { resource }: TracingDefaults): Readonly<Record<string, string>> {
  const attributes: Record<string, string> = { ...resource, ...reader.pairs("OTEL_RESOURCE_ATTRIBUTES") };
  const serviceName = reader.text("OTEL_SERVICE_NAME");
  if (serviceName !== undefined) attributes["service.name"] = serviceName;
  return attributes;
}

function readBatch(reader: VariableReader): BatchSettings {
  const maxQueueSize = reader.integer("OTEL_BSP_MAX_QUEUE_SIZE", 1, 1_000_000) ?? 2_048;
  const maxExportBatchSize = reader.integer("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, 100_000) ?? 512;
  return {
    scheduledDelayMs: reader.integer("OTEL_BSP_SCHEDULE_DELAY", 1, 3_600_000) ?? 5_000,
    exportTimeoutMs: reader.integer("OTEL_BSP_EXPORT_TIMEOUT", 1, 3_600_000) ?? 30_000,
    maxQueueSize,
    maxExportBatchSize: Math.min(maxExportBatchSize, maxQueueSize),
  };
}

/** Reads variables. An empty one counts as unset, as the specification says. */
class VariableReader {
  readonly #env: Environment;
  readonly problems: Problem[] = [];

  constructor(env: Environment) {
    this.#env = env;
  }

  text(name: string): string | undefined {
    const value = this.#env[name]?.trim();
    return value === "" ? undefined : value;
  }

  list(name: string): readonly string[] {
    return (this.text(name) ?? "").split(",").flatMap((item) => item.trim().toLowerCase() || []);
  }

  reject(name: string, accepted: string): void {
    this.problems.push({ path: name, message: `${JSON.stringify(this.text(name) ?? "")} is not ${accepted}` });
  }

  boolean(name: string): boolean | undefined {
    const value = this.text(name)?.toLowerCase();
    if (value === undefined) return undefined;
    if (value !== "true" && value !== "false") this.reject(name, "true or false");
    return value === "true";
  }

  integer(name: string, min: number, max: number): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const number = Number(value);
    if (/^\d{1,9}$/.test(value) && number >= min && number <= max) return number;
    this.reject(name, `a whole number from ${min} to ${max}`);
    return undefined;
  }

  ratio(name: string): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const number = Number(value);
    if (number >= 0 && number <= 1) return number;
    this.reject(name, "a number from 0 to 1");
    return undefined;
  }

  endpoint(name: string): void {
    const value = this.text(name);
    if (value === undefined) return;
    const protocol = URL.parse(value)?.protocol;
    if (protocol === "http:" || protocol === "https:") return;
    // A URL may have credentials.
    this.problems.push({ path: name, message: "the value is not a URL that begins with http:// or https://" });
  }

  /** Reads `key=value` pairs. A value is not part of the message, since headers are secrets. */
  pairs(name: string): Readonly<Record<string, string>> {
    const pairs: Record<string, string> = {};
    for (const item of (this.text(name) ?? "").split(",")) {
      if (item.trim() === "") continue;
      const [key = "", ...rest] = item.split("=");
      const value = decoded(rest.join("=").trim());
      if (key.trim() === "" || rest.length === 0 || value === undefined) {
        const message = "the value is not a list of key=value pairs with percent-encoded values, separated by commas";
        this.problems.push({ path: name, message });
        return {};
      }
      pairs[decoded(key.trim()) ?? key.trim()] = value;
    }
    return pairs;
  }

  headers(name: string): void {
    this.pairs(name);
  }

  /** Returns the problems of these variables as a result; undefined for none. */
  problemsOf(...names: readonly string[]): Result<never> | undefined {
    const problems = this.problems.filter(({ path = "" }) => names.includes(path));
    return problems.length === 0 ? undefined : { ok: false, problems };
  }
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
