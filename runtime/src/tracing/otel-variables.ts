/**
 * Reads variables of the OpenTelemetry specification ("Environment Variable Specification", "OTLP Exporter
 * Configuration"). The exporters themselves read OTEL_EXPORTER_OTLP_* for headers, timeouts, compression and
 * certificates, so that no secret is in our settings; here they are validated.
 */
import type { Problem, Result } from "../text/problem.ts";

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** How OTLP is sent. */
export type OtlpProtocol = "grpc" | "http/protobuf";

/** A signal of OpenTelemetry, as in the names of variables. */
export type Signal = "TRACES" | "METRICS" | "LOGS";

/** The bounds of a queue of exports in each thread. */
export interface BatchSettings {
  readonly scheduledDelayMs: number;
  readonly exportTimeoutMs: number;
  readonly maxQueueSize: number;
  readonly maxExportBatchSize: number;
}

/** Reads variables. An empty one counts as unset, as the specification says. */
export class VariableReader {
  readonly #env: Environment;
  readonly problems: Problem[] = [];

  constructor(env: Environment) {
    this.#env = env;
  }

  /** The value of a variable without blanks around it; undefined if it is unset. */
  text(name: string): string | undefined {
    const value = this.#env[name]?.trim();
    return value === "" ? undefined : value;
  }

  /** A list in lower case, separated by commas. */
  list(name: string): readonly string[] {
    return (this.text(name) ?? "").split(",").flatMap((item) => item.trim().toLowerCase() || []);
  }

  /** Adds a problem. @param accepted what the variable may have. */
  reject(name: string, accepted: string): void {
    this.problems.push({ path: name, message: `${JSON.stringify(this.text(name) ?? "")} is not ${accepted}` });
  }

  /** `true` or `false`. */
  boolean(name: string): boolean | undefined {
    const value = this.text(name)?.toLowerCase();
    if (value === undefined) return undefined;
    if (value !== "true" && value !== "false") this.reject(name, "true or false");
    return value === "true";
  }

  /** A whole number from `min` to `max`. */
  integer(name: string, min: number, max: number): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const number = Number(value);
    if (/^\d{1,9}$/.test(value) && number >= min && number <= max) return number;
    this.reject(name, `a whole number from ${min} to ${max}`);
    return undefined;
  }

  /** A number from 0 to 1. */
  ratio(name: string): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const number = Number(value);
    if (number >= 0 && number <= 1) return number;
    this.reject(name, "a number from 0 to 1");
    return undefined;
  }

  /** Validates a URL. */
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

  /** Whether the exporter of a signal is `otlp` and not `none`; undefined if the variable is not set. */
  isExported(signal: Signal): boolean | undefined {
    const variable = `OTEL_${signal}_EXPORTER`;
    const exporters = this.list(variable);
    const isKnown = exporters.every((name) => name === "otlp" || name === "none");
    if (isKnown && exporters.length <= 1) return exporters.length === 0 ? undefined : exporters[0] === "otlp";
    this.reject(variable, "one of otlp, none");
    return false;
  }

  /** Whether a variable names the endpoint of a signal, or that of all signals. */
  hasEndpoint(signal: Signal): boolean {
    const variables = [`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, "OTEL_EXPORTER_OTLP_ENDPOINT"];
    return variables.some((name) => this.text(name) !== undefined);
  }

  /** Reads how a signal is sent, and validates what the exporter reads. */
  exporter(signal: Signal, defaultProtocol: OtlpProtocol): OtlpProtocol {
    for (const prefix of [`OTEL_EXPORTER_OTLP_${signal}`, "OTEL_EXPORTER_OTLP"]) {
      this.endpoint(`${prefix}_ENDPOINT`);
      this.pairs(`${prefix}_HEADERS`);
      this.integer(`${prefix}_TIMEOUT`, 1, 3_600_000);
    }
    const variable = [`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`, "OTEL_EXPORTER_OTLP_PROTOCOL"].find(
      (name) => this.text(name) !== undefined,
    );
    if (variable === undefined) return defaultProtocol;
    const value = this.text(variable);
    if (value === "grpc" || value === "http/protobuf") return value;
    this.reject(variable, "one of grpc, http/protobuf");
    return defaultProtocol;
  }

  /** Reads the attributes of the resource; variables override `defaults`. */
  resource(defaults: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    const attributes: Record<string, string> = { ...defaults, ...this.pairs("OTEL_RESOURCE_ATTRIBUTES") };
    const serviceName = this.text("OTEL_SERVICE_NAME");
    if (serviceName !== undefined) attributes["service.name"] = serviceName;
    return attributes;
  }

  /** Reads the bounds of a queue. @param prefix of its variables. @param delayMs the default time between exports. */
  batch(prefix: "OTEL_BSP" | "OTEL_BLRP", delayMs: number): BatchSettings {
    const maxQueueSize = this.integer(`${prefix}_MAX_QUEUE_SIZE`, 1, 1_000_000) ?? 2_048;
    const maxExportBatchSize = this.integer(`${prefix}_MAX_EXPORT_BATCH_SIZE`, 1, 100_000) ?? 512;
    return {
      scheduledDelayMs: this.integer(`${prefix}_SCHEDULE_DELAY`, 1, 3_600_000) ?? delayMs,
      exportTimeoutMs: this.integer(`${prefix}_EXPORT_TIMEOUT`, 1, 3_600_000) ?? 30_000,
      maxQueueSize,
      maxExportBatchSize: Math.min(maxExportBatchSize, maxQueueSize),
    };
  }

  /** Returns the problems of these variables as a result; undefined for none. */
  problemsOf(...names: readonly string[]): Result<never> | undefined {
    const problems = this.problems.filter(({ path = "" }) => names.includes(path));
    return problems.length === 0 ? undefined : { ok: false, problems };
  }
}

/** Returns the problems of several readings, each once: some variables are of several signals. */
export function problemsOfAll(readings: readonly Result<unknown>[]): readonly Problem[] {
  const problems = readings.flatMap((reading) => (reading.ok ? [] : reading.problems));
  return [...new Map(problems.map((problem) => [`${problem.path} ${problem.message}`, problem])).values()];
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
