/** Converts `rateLimit` of a BackendTrafficPolicy of Envoy Gateway. */
import * as z from "zod";
import { type Converted, celString, type Entry, inRange, type Note, policiesOf, type Target } from "./policy.ts";

const invert = z.boolean().default(false);

const selector = z.object({
  headers: z
    .array(
      z.object({
        type: z.enum(["Exact", "RegularExpression", "Distinct"]).default("Exact"),
        name: z.string(),
        value: z.string().default(""),
        invert,
      }),
    )
    .default([]),
  methods: z.array(z.object({ value: z.string(), invert })).default([]),
  path: z
    .object({
      type: z.enum(["Exact", "PathPrefix", "RegularExpression"]).default("PathPrefix"),
      value: z.string().default("/"),
      invert,
    })
    .optional(),
  sourceCIDR: z.object({ type: z.enum(["Exact", "Distinct"]).default("Exact"), value: z.string() }).optional(),
});
type Selector = z.output<typeof selector>;

const cost = z.object({
  from: z.enum(["Number", "Metadata"]),
  number: z.number().optional(),
  metadata: z.object({ namespace: z.string(), key: z.string() }).optional(),
});
type Cost = z.output<typeof cost>;

const rule = z.object({
  // A selector that this program does not know must not be read as one that selects every request.
  clientSelectors: z.array(z.strictObject(selector.shape)).default([]),
  limit: z.object({
    requests: z.int().min(0),
    unit: z.enum(["Second", "Minute", "Hour", "Day", "Month", "Year"]),
  }),
  cost: z.object({ request: cost.optional(), response: cost.optional() }).optional(),
  shared: z.boolean().default(false),
  shadowMode: z.boolean().default(false),
});
type Rule = z.output<typeof rule>;

const reference = z.object({
  group: z.string(),
  kind: z.string(),
  name: z.string(),
  sectionName: z.string().optional(),
});
const rules = z.object({ rules: z.array(z.unknown()).default([]) }).optional();

/** The fields of a BackendTrafficPolicy that are converted. */
export const backendTrafficPolicySchema = z.object({
  kind: z.literal("BackendTrafficPolicy"),
  metadata: z.object({ name: z.string(), namespace: z.string().optional() }),
  spec: z.object({
    targetRef: reference.optional(),
    targetRefs: z.array(reference).default([]),
    targetSelectors: z.array(z.unknown()).default([]),
    rateLimit: z.object({ local: rules, global: rules }).optional(),
  }),
});
type BackendTrafficPolicy = z.output<typeof backendTrafficPolicySchema>;

type Report = (kind: Note["kind"], field: string, message: string) => void;

/** Returns no policy for one without `rateLimit`. */
export function convertBackendTrafficPolicy({ metadata, spec }: BackendTrafficPolicy): Converted {
  const object = `BackendTrafficPolicy ${metadata.namespace ?? "default"}/${metadata.name}`;
  const notes: Note[] = [];
  const report: Report = (kind, field, message) => void notes.push({ kind, object, field, message });
  if (spec.rateLimit === undefined) return { policies: [], notes };
  const targets = targetsOf(spec, report);
  const entries = (["local", "global"] as const).flatMap((scope) =>
    (spec.rateLimit?.[scope]?.rules ?? []).flatMap((given, index) => {
      const field = `spec.rateLimit.${scope}.rules[${index}]`;
      const parsed = rule.safeParse(given);
      if (!parsed.success) {
        report(
          "left out",
          field,
          parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; "),
        );
        return [];
      }
      const context = { scope, name: `${metadata.name}-${scope}-${index}`, targets, field, report };
      return convertRule(parsed.data, context) ?? [];
    }),
  );
  if (targets.length === 0 || entries.length === 0) return { policies: [], notes };
  if (entries.some(({ shareAcrossReplicas }) => shareAcrossReplicas)) {
    report(
      "differs",
      "spec.rateLimit.global",
      "each replica counts an equal share by itself; for counters of a rate limit service, write spec.traffic.rateLimit.global",
    );
  }
  return { policies: policiesOf(metadata, targets, entries), notes };
}

function targetsOf(spec: BackendTrafficPolicy["spec"], report: Report): readonly Target[] {
  if (spec.targetSelectors.length > 0) {
    report("left out", "spec.targetSelectors", "a ProxyPolicy names its targets: list them in targetRefs");
  }
  const references = spec.targetRef === undefined ? spec.targetRefs : [spec.targetRef, ...spec.targetRefs];
  return references.flatMap(({ group, kind, name, sectionName }, index): readonly Target[] => {
    if (group === "gateway.networking.k8s.io" && ["HTTPRoute", "GRPCRoute", "Gateway"].includes(kind)) {
      return [{ group, kind, name, ...(sectionName !== undefined && { sectionName }) }];
    }
    report("left out", `spec.targetRefs[${index}]`, `a ProxyPolicy has no targets of the kind ${kind}`);
    return [];
  });
}

interface RuleContext {
  readonly scope: "local" | "global";
  readonly name: string;
  readonly targets: readonly Target[];
  readonly field: string;
  readonly report: Report;
}

/** Returns undefined, with a note, for a rule that an entry cannot express. */
function convertRule(given: Rule, { scope, name, targets, field, report }: RuleContext): Entry | undefined {
  const selected = given.clientSelectors.map((each) => selectionOf(each));
  const unknown = selected.find((each) => typeof each === "string");
  if (unknown !== undefined) {
    report("left out", `${field}.clientSelectors`, unknown);
    return undefined;
  }
  const { requests } = given.limit;
  if (requests === 0) {
    report(
      "left out",
      `${field}.limit.requests`,
      "a limit of 0 denies every request: remove the route, or match fewer requests",
    );
    return undefined;
  }
  const counted = countedBy(given.cost);
  if (typeof counted === "string") {
    report("left out", `${field}.cost`, counted);
    return undefined;
  }
  const selections = selected.filter((each) => typeof each !== "string");
  const isOfGateway = targets.some(({ kind }) => kind === "Gateway") && !given.shared;
  const keys = [...(isOfGateway ? ["route"] : []), ...selections.flatMap(({ keys: each }) => each)];
  const conditions = selections.flatMap(({ conditions: each }) => each);
  const key = keyOf(keys);
  return {
    name: entryName(name),
    ...(counted.counts === "tokens" ? { tokens: requests } : { requests }),
    ...windowsOf(given.limit.unit),
    ...(key !== undefined && { key }),
    ...(conditions.length > 0 && { when: conditions.join(" && ") }),
    ...(counted.cost !== undefined && { cost: counted.cost }),
    ...(given.shared && targets.length > 1 && { bucket: entryName(name) }),
    ...(scope === "global" && { shareAcrossReplicas: true as const }),
    ...(given.shadowMode && { mode: "Shadow" as const }),
  };
}

/** Names of entries and buckets have lower-case letters, digits and hyphens, and at most 63 characters. */
function entryName(name: string): string {
  const text = name.toLowerCase().replaceAll(/[^-a-z0-9]+/g, "-");
  return (/^[a-z]/.test(text) ? text : `limit-${text}`).slice(-63).replace(/^[^a-z]+/, "");
}

function windowsOf(unit: Rule["limit"]["unit"]): Pick<Entry, "unit" | "every" | "window"> {
  if (unit === "Month") return { unit: "Months", window: "Calendar" };
  if (unit === "Year") return { unit: "Months", every: 12, window: "Calendar" };
  return { unit: `${unit}s` };
}

interface Selection {
  /** CEL expressions, each value of which has its own counter. */
  readonly keys: readonly string[];
  /** CEL conditions, all of which must be true. */
  readonly conditions: readonly string[];
}

/** Returns the reason if an entry cannot express the selector. */
function selectionOf({ headers, methods, path, sourceCIDR }: Selector): Selection | string {
  const keys: string[] = [];
  const conditions: string[] = [];
  for (const { type, name, value, invert: isInverted } of headers) {
    const header = `request.headers[${celString(name.toLowerCase())}]`;
    // A rule does not apply to a request without the header, and an expression without a value would make it apply.
    const isPresent = `${celString(name.toLowerCase())} in request.headers`;
    if (type === "Distinct") {
      keys.push(header);
      conditions.push(isPresent);
      continue;
    }
    const matches = type === "Exact" ? `${header} == ${celString(value)}` : matchesWhole(header, value);
    conditions.push(isInverted ? `!(${isPresent} && ${matches})` : `${isPresent} && ${matches}`);
  }
  if (methods.length > 0) {
    const each = methods.map(({ value, invert: isInverted }) => {
      return `request.method ${isInverted ? "!=" : "=="} ${celString(value)}`;
    });
    conditions.push(each.length === 1 ? (each[0] ?? "") : `(${each.join(" || ")})`);
  }
  if (path !== undefined) conditions.push(pathCondition(path));
  if (sourceCIDR !== undefined) {
    const condition = inRange(sourceCIDR.value);
    if (condition === undefined) {
      return `no condition can express the range ${sourceCIDR.value}: use a route of its own`;
    }
    if (condition !== "true") conditions.push(condition);
    if (sourceCIDR.type === "Distinct") keys.push("source.exactAddress");
  }
  return { keys, conditions };
}

function pathCondition({ type, value, invert: isInverted }: NonNullable<Selector["path"]>): string {
  const prefix = value.replace(/\/+$/, "");
  const matches =
    type === "Exact"
      ? `request.path == ${celString(value)}`
      : type === "RegularExpression"
        ? matchesWhole("request.path", value)
        : prefix === ""
          ? "true"
          : `(request.path == ${celString(prefix)} || request.path.startsWith(${celString(`${prefix}/`)}))`;
  return isInverted ? `!(${matches})` : matches;
}

/** Envoy matches the whole text, CEL any part of it. */
function matchesWhole(expression: string, pattern: string): string {
  return `${expression}.matches(${celString(`^(?:${pattern})$`)})`;
}

/** Joins the parts of a key, each with its length, so that no two lists of values have the same key. */
function keyOf(parts: readonly string[]): string | undefined {
  if (parts.length < 2) return parts[0];
  return parts.map((part) => `string(size(${part})) + ":" + ${part}`).join(" + ");
}

/**
 * The values that Envoy AI Gateway writes into its metadata, as costs here; `undefined` is what is counted by default.
 */
const tokenCosts: Readonly<Record<string, string | undefined>> = {
  llm_total_token: undefined,
  llm_input_token: "llm.inputTokens",
  llm_output_token: "llm.outputTokens",
  llm_cached_input_token: "llm.cachedInputTokens",
};

/** Returns what a rule counts; the reason if an entry cannot count it. */
function countedBy(
  given: Rule["cost"],
): { readonly counts: "requests" | "tokens"; readonly cost?: string | undefined } | string {
  const { request, response } = given ?? {};
  if (response === undefined) {
    if (request?.from === "Metadata") return `metadata ${describe(request)} of the request is not known`;
    const number = request?.number ?? 1;
    return number === 1 ? { counts: "requests" } : { counts: "requests", cost: String(number) };
  }
  if (request !== undefined && (request.from !== "Number" || request.number !== 0)) {
    return "an entry charges a request or its response, not both: write an entry for each";
  }
  const key = response.metadata?.key ?? "";
  if (response.from === "Metadata" && Object.hasOwn(tokenCosts, key)) {
    return { counts: "tokens", cost: tokenCosts[key] };
  }
  return `${response.from === "Number" ? "a number" : `metadata ${describe(response)}`} is no cost of a response here: accepted are tokens, which are read from its usage`;
}

function describe({ metadata }: Cost): string {
  return metadata === undefined ? "" : `${metadata.namespace}/${metadata.key}`;
}
