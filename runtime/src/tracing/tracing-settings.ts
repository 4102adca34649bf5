/** The variables of the OpenTelemetry specification that configure traces. */
import type { Result } from "../text/problem.ts";
import { type BatchSettings, type Environment, type OtlpProtocol, VariableReader } from "./otel-variables.ts";
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
    protocol: reader.exporter("TRACES", defaults.protocol ?? "http/protobuf"),
    sampler: readSampler(reader, defaults),
    propagators: readPropagators(reader),
    resource: reader.resource(defaults.resource),
    batch: reader.batch("OTEL_BSP", 5_000),
    semconvOptIn: readSemconvOptIn(env),
  };
  // Variables of traces that are off must not prevent a start: they may be those of a whole cluster.
  if (!isOn) return reader.problemsOf("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER") ?? { ok: true, value: undefined };
  return reader.problems.length > 0 ? { ok: false, problems: reader.problems } : { ok: true, value: settings };
}

/** Reads the conventions that the operator opts in to. */
export function readSemconvOptIn(env: Environment): readonly string[] {
  return new VariableReader(env).list("OTEL_SEMCONV_STABILITY_OPT_IN");
}

/** Without an exporter, an endpoint may switch traces on. */
function isSwitchedOn(reader: VariableReader, { isOn = false, endpointSwitchesOn }: TracingDefaults): boolean {
  return reader.isExported("TRACES") ?? (isOn || (endpointSwitchesOn && reader.hasEndpoint("TRACES")));
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
