/**
 * Parses one object from YAML or from the API server into a typed resource, or into all its errors. Locations in the
 * text are added by `parse-manifests.ts`.
 */
import { suggest } from "@gatewayproxy/runtime/suggest";
import { boundedErrors, type ErrorPlace, placesOf } from "./bounded-errors.ts";
import { describeType, type FieldError } from "./issue.ts";
import { defaultNamespace, gatewayGroup, proxyGroup } from "./names.ts";
import { TooManyErrors, withErrorBound } from "./schema.ts";
import { type Kind, kindNames, kinds, remainsOf, renderKey, type Resource, type ResourceKey } from "./resource.ts";

/** The outcome of parsing one object. */
export type ParsedResource =
  | { readonly kind: "resource"; readonly resource: Resource }
  /** A kind that the gateway does not read, such as a Deployment. */
  | { readonly kind: "foreign" }
  | RejectedText;

interface RejectedText {
  readonly kind: "rejected";
  /** Absent where the errors hide the identity of the object. */
  readonly key: ResourceKey | undefined;
  /** As `boundedErrors`. */
  readonly errors: readonly FieldError[];
  /** Of all errors. */
  readonly places: readonly ErrorPlace[];
  /** The remains of the object (`remainsOf`). */
  readonly remains: Resource | undefined;
}

/**
 * Parses one object. A field whose value is null counts as absent, as in the Kubernetes API. Never throws.
 *
 * @param further errors of the object that its content does not show.
 */
export function parseResource(value: unknown, further: readonly FieldError[] = []): ParsedResource {
  if (!isMap(value)) {
    return rejectAt([], `found ${describeType(value)}, accepted is a map with apiVersion, kind and metadata`);
  }
  const { apiVersion, kind } = value;
  if (typeof apiVersion !== "string") return rejectAt(["apiVersion"], "missing, required is a version such as v1");
  if (typeof kind !== "string") return rejectAt(["kind"], "missing, required is a kind such as HTTPRoute");
  const known = kindNames.find((name) => name === kind && kinds[name].group === groupOf(apiVersion));
  if (known === undefined) return parseUnknownKind(apiVersion, kind);

  const object = withoutNulls(value);
  const parsed = parseWith(known, object);
  if (parsed === undefined) {
    const { errors, places } = rejectAt([], "has too many errors to list them");
    return { kind: "rejected", key: identify(known, value), errors, places, remains: remainsOf[known]?.(object) };
  }
  if (parsed.success && further.length === 0) return { kind: "resource", resource: parsed.data };
  const issues = parsed.error?.issues ?? [];
  return {
    kind: "rejected",
    key: identify(known, value),
    errors: [...further, ...boundedErrors(issues, known !== "Secret")],
    places: [...further, ...placesOf(issues)],
    remains: remainsOf[known]?.(object),
  };
}

/** Errors of an object that is parsed to its end, as `withErrorBound` counts them. */
const maxErrors = 1_024;

/** Returns undefined for an object with too many errors. */
function parseWith(kind: Kind, object: unknown) {
  try {
    return withErrorBound(maxErrors, () => kinds[kind].schema.safeParse(object, { reportInput: true }));
  } catch (error) {
    if (error instanceof TooManyErrors) return undefined;
    throw error;
  }
}

type FieldMap = Readonly<Record<string, unknown>>;

function rejectAt(path: FieldError["path"], message: string): RejectedText {
  const errors = [{ path, message, isUnknownField: false }];
  return { kind: "rejected", key: undefined, errors, places: errors, remains: undefined };
}

/** Decides whether an unknown kind belongs to another API or is a typing error. */
function parseUnknownKind(apiVersion: string, kind: string): ParsedResource {
  const group = groupOf(apiVersion);
  if (group === gatewayGroup || group === proxyGroup) {
    const accepted = kindNames.filter((name) => kinds[name].group === group);
    const meant = suggest(kind, accepted);
    const hint = meant === undefined ? "" : `; did you mean "${meant}"?`;
    return rejectAt(["kind"], `found "${kind}", accepted in group ${group} is one of ${accepted.join(", ")}${hint}`);
  }
  const namesake = kindNames.find((name) => name === kind);
  if (namesake !== undefined && suggest(group, [kinds[namesake].group]) !== undefined) {
    const accepted = acceptedVersions(namesake);
    return rejectAt(["apiVersion"], `found "${apiVersion}", accepted for ${kind} is ${accepted.join(" or ")}`);
  }
  return { kind: "foreign" };
}

function acceptedVersions(kind: Kind): readonly string[] {
  const { group, versions } = kinds[kind];
  return versions.map((version) => (group === "" ? version : `${group}/${version}`));
}

function groupOf(apiVersion: string): string {
  return apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "";
}

/** Returns the key of the object, as far as it can be read. */
function identify(kind: string, value: FieldMap): ResourceKey | undefined {
  const { metadata } = value;
  if (!isMap(metadata) || typeof metadata["name"] !== "string") return undefined;
  const namespace = typeof metadata["namespace"] === "string" ? metadata["namespace"] : defaultNamespace;
  const isCluster = kind === "GatewayClass" || kind === "Namespace";
  return renderKey(kind, isCluster ? undefined : namespace, metadata["name"]);
}

/**
 * Returns the value without null fields, or itself if it has none: an object may have thousands of fields. Null items
 * of lists stay and are rejected by the schema.
 */
function withoutNulls(value: unknown): unknown {
  return hasNullField(value) ? copyWithoutNulls(value) : value;
}

function copyWithoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyWithoutNulls);
  if (!isMap(value)) return value;
  const fields = Object.entries(value).filter(([, field]) => !isAbsent(field));
  return Object.fromEntries(fields.map(([name, field]) => [name, copyWithoutNulls(field)]));
}

/** Whether a map in the value has a null field. Makes no list of the fields. */
function hasNullField(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasNullField);
  if (!isMap(value)) return false;
  // Values of YAML and JSON inherit nothing that is enumerable.
  for (const name in value) {
    const field = value[name];
    if (isAbsent(field) || hasNullField(field)) return true;
  }
  return false;
}

function isAbsent(field: unknown): boolean {
  return field === null || field === undefined;
}

function isMap(value: unknown): value is FieldMap {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
