/**
 * Reads one object as the YAML or the API server gives it: `unknown` in, a typed resource or all its faults out. What
 * every reader of resources shares; where the text stands is `parse-manifests.ts`' business.
 */
import { suggest } from "@gatewayproxy/runtime/suggest";
import { describeIssue, describeType, type FieldFault } from "./issue.ts";
import { defaultNamespace, gatewayGroup, proxyGroup } from "./names.ts";
import { type Kind, kindNames, kinds, remainsOf, renderKey, type Resource, type ResourceKey } from "./resource.ts";

export type ParsedResource =
  | { readonly kind: "resource"; readonly resource: Resource }
  /** A kind that does not concern us, such as a Deployment. */
  | { readonly kind: "foreign" }
  | RejectedText;

interface RejectedText {
  readonly kind: "rejected";
  /** Absent where the faults hide whose text this is. */
  readonly key: ResourceKey | undefined;
  readonly faults: readonly FieldFault[];
  /** As `remainsOf` says. */
  readonly remains: Resource | undefined;
}

/** Parses one object. A field whose value is null counts as absent, as in the Kubernetes API. Never throws. */
export function parseResource(value: unknown): ParsedResource {
  if (!isMap(value)) {
    return rejectAt([], `found ${describeType(value)}, accepted is a map with apiVersion, kind and metadata`);
  }
  const { apiVersion, kind } = value;
  if (typeof apiVersion !== "string") return rejectAt(["apiVersion"], "missing, required is a version such as v1");
  if (typeof kind !== "string") return rejectAt(["kind"], "missing, required is a kind such as HTTPRoute");
  const known = kindNames.find((name) => name === kind && kinds[name].group === groupOf(apiVersion));
  if (known === undefined) return judgeUnknownKind(apiVersion, kind, value);

  const parsed = kinds[known].schema.safeParse(withoutNulls(value), { reportInput: true });
  if (parsed.success) return { kind: "resource", resource: parsed.data };
  const faults = parsed.error.issues.map((issue) => describeIssue(issue, known !== "Secret"));
  return { kind: "rejected", key: identify(known, value), faults, remains: remainsOf[known]?.(withoutNulls(value)) };
}

type FieldMap = Readonly<Record<string, unknown>>;

function rejectAt(path: FieldFault["path"], message: string): RejectedText {
  const faults = [{ path, message, isUnknownField: false }];
  return { kind: "rejected", key: undefined, faults, remains: undefined };
}

/** Kinds of the Gateway API that manifests may well hold; said aloud, because ignoring them changes what is served. */
const unservedKinds = ["GRPCRoute", "TCPRoute", "TLSRoute", "UDPRoute"];

/** Decides whether a kind that we do not read is somebody else's or a slip of the finger. */
function judgeUnknownKind(apiVersion: string, kind: string, value: FieldMap): ParsedResource {
  const group = groupOf(apiVersion);
  if (group === gatewayGroup && unservedKinds.includes(kind)) {
    const rejection = rejectAt(["kind"], `kind ${kind} is not served by this version; the resource is ignored`);
    return { ...rejection, key: identify(kind, value) };
  }
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

/** Whose text this is, as far as it can be read. */
function identify(kind: string, value: FieldMap): ResourceKey | undefined {
  const { metadata } = value;
  if (!isMap(metadata) || typeof metadata["name"] !== "string") return undefined;
  const namespace = typeof metadata["namespace"] === "string" ? metadata["namespace"] : defaultNamespace;
  const isCluster = kind === "GatewayClass" || kind === "Namespace";
  return renderKey(kind, isCluster ? undefined : namespace, metadata["name"]);
}

/** A copy without the fields that are null; null items of lists stay, and are refused. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isMap(value)) return value;
  const fields = Object.entries(value).filter(([, field]) => field !== null && field !== undefined);
  return Object.fromEntries(fields.map(([name, field]) => [name, withoutNulls(field)]));
}

function isMap(value: unknown): value is FieldMap {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
