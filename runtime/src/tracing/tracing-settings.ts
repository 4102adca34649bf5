/**
 * The variables of the OpenTelemetry specification ("Environment Variable Specification", "OTLP Exporter Configuration")
 * that configure traces. The exporter itself reads OTEL_EXPORTER_OTLP_* for headers, timeouts, compression and
 * certificates, so that no secret is in our settings; here they are validated.
 */
import type { Result } from "../text/problem.ts";
import {
  type BatchSettings,
  type Environment,
  hasEndpoint,
  type OtlpProtocol,
  readBatch,
  readExporter,
  readProtocol,
  readResource,
  validateExporter,
  VariableReader,
} from "./otel-variables.ts";
import { type Propagator, propagatorNames } from "./propagation.ts";
import { samplerNames, type SamplerSettings } from "./sampling.ts";

/** The settings of traces. Plain data, which threads may share. */
export interface TracingSettings {
  readonly protocol: OtlpProtocol;
  readonly sampler: SamplerSettings;
  readonly propagators: readonly Propagator[];
  /** Of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, without defaults of the program. */
  readonly resource: Readonly<Record<string, string>>;
  /** Of the queue of spans. */
  readonly batch: BatchSettings;
  /** The values of OTEL_SEMCONV_STABILITY_OPT_IN. */
  readonly semconvOptIn: readonly string[];
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

const defaultSampler: SamplerSettings = { isParentBased: true, ratio: 1 };

/** Reads the settings of traces; `value` is undefined if they are off. */
export function readTracingSettings(env: Environment, defaults: TracingDefaults): Result<TracingSettings | undefined> {
  const reader = new VariableReader(env);
  const isDisabled = reader.boolean("OTEL_SDK_DISABLED") === true;
  const isOn = isSwitchedOn(reader, defaults) && !isDisabled;
  const settings: TracingSettings = {
    protocol: readProtocol(reader, "TRACES", defaults.protocol),
    sampler: readSampler(reader, defaults),
    propagators: readPropagators(reader),
    resource: readResource(reader, defaults.resource),
    batch: readBatch(reader, "OTEL_BSP", 5_000),
    semconvOptIn: reader.list("OTEL_SEMCONV_STABILITY_OPT_IN"),
  };
  validateExporter(reader, "TRACES");
  // Variables of traces that are off must not prevent a start: they may be those of a whole cluster.
  if (!isOn) return reader.problemsOf("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER") ?? { ok: true, value: undefined };
  return reader.problems.length > 0 ? { ok: false, problems: reader.problems } : { ok: true, value: settings };
}

/** Without an exporter, an endpoint may switch traces on. */
function isSwitchedOn(reader: VariableReader, { isOn = false, endpointSwitchesOn }: TracingDefaults): boolean {
  return readExporter(reader, "TRACES") ?? (isOn || (endpointSwitchesOn && hasEndpoint(reader, "TRACES")));
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
