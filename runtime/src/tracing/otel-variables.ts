/** Reads the environment variables of the OpenTelemetry specification, which the settings of all signals share. */
import type { Problem, Result } from "../text/problem.ts";

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** How OTLP is sent. */
export type OtlpProtocol = "grpc" | "http/protobuf";

/** A signal, as in the names of its variables. */
export type Signal = "TRACES" | "LOGS";

/** The bounds of a queue of exports in each thread. */
export interface BatchSettings {
  readonly scheduledDelayMs: number;
  readonly exportTimeoutMs: number;
  readonly maxQueueSize: number;
  readonly maxExportBatchSize: number;
}

/** The variable of a signal, which takes precedence, and that of all signals. */
function otlpVariables(signal: Signal, name: string): readonly [string, string] {
  return [`OTEL_EXPORTER_OTLP_${signal}_${name}`, `OTEL_EXPORTER_OTLP_${name}`];
}

/** Whether the exporter of a signal is `otlp`; undefined if the variable is not set. */
export function readExporter(reader: VariableReader, signal: Signal): boolean | undefined {
  const variable = `OTEL_${signal}_EXPORTER`;
  const exporters = reader.list(variable);
  const isKnown = exporters.every((name) => name === "otlp" || name === "none");
  if (isKnown && exporters.length <= 1) return exporters.length === 0 ? undefined : exporters[0] === "otlp";
  reader.reject(variable, "one of otlp, none");
  return false;
}

/** Whether a variable names the endpoint of a signal. */
export function hasEndpoint(reader: VariableReader, signal: Signal): boolean {
  return otlpVariables(signal, "ENDPOINT").some((name) => reader.text(name) !== undefined);
}

/** Reads the protocol of a signal. @param fallback without a variable, and with an invalid one. */
export function readProtocol(
  reader: VariableReader,
  signal: Signal,
  fallback: OtlpProtocol = "http/protobuf",
): OtlpProtocol {
  const variable = otlpVariables(signal, "PROTOCOL").find((name) => reader.text(name) !== undefined);
  if (variable === undefined) return fallback;
  const value = reader.text(variable);
  if (value === "grpc" || value === "http/protobuf") return value;
  reader.reject(variable, "one of grpc, http/protobuf");
  return fallback;
}

/** Validates the variables that only the exporter of a signal reads. */
export function validateExporter(reader: VariableReader, signal: Signal): void {
  for (const name of otlpVariables(signal, "ENDPOINT")) reader.endpoint(name);
  for (const name of otlpVariables(signal, "HEADERS")) reader.headers(name);
  for (const name of otlpVariables(signal, "TIMEOUT")) reader.integer(name, 1, 3_600_000);
}

/**
 * Reads the attributes of the resource: `key=value` pairs with percent-encoded values, separated by commas (Resource SDK).
 *
 * @param defaults such as `service.name`; variables override them.
 */
export function readResource(
  reader: VariableReader,
  defaults: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const attributes: Record<string, string> = { ...defaults, ...reader.pairs("OTEL_RESOURCE_ATTRIBUTES") };
  const serviceName = reader.text("OTEL_SERVICE_NAME");
  if (serviceName !== undefined) attributes["service.name"] = serviceName;
  return attributes;
}

/** Reads the bounds of a queue. @param prefix of its variables. @param delayMs the default time between exports. */
export function readBatch(reader: VariableReader, prefix: "OTEL_BSP" | "OTEL_BLRP", delayMs: number): BatchSettings {
  const maxQueueSize = reader.integer(`${prefix}_MAX_QUEUE_SIZE`, 1, 1_000_000) ?? 2_048;
  const maxExportBatchSize = reader.integer(`${prefix}_MAX_EXPORT_BATCH_SIZE`, 1, 100_000) ?? 512;
  return {
    scheduledDelayMs: reader.integer(`${prefix}_SCHEDULE_DELAY`, 1, 3_600_000) ?? delayMs,
    exportTimeoutMs: reader.integer(`${prefix}_EXPORT_TIMEOUT`, 1, 3_600_000) ?? 30_000,
    maxQueueSize,
    maxExportBatchSize: Math.min(maxExportBatchSize, maxQueueSize),
  };
}

/** Reads variables. An empty one counts as unset, as the specification says. */
export class VariableReader {
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
