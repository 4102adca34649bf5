/**
 * Labels and annotations that a Gateway asks for (Gateway API `GatewayInfrastructure`). Other controllers act on some of
 * them: on a Service they shape a load balancer, which is what the field is for. On pods they add containers and volumes
 * (sidecar injection), weaken a security profile, or on a ServiceAccount give a cloud identity. So a key with a prefix
 * goes on the Service alone, unless the prefix is known to be harmless.
 */
import type { Gateway } from "../../api/gateway.ts";
import type { Service } from "../../api/service.ts";
import { fieldsOf } from "../../kube/object.ts";
import type { Finding } from "../../translate/finding.ts";
import type { Parameters } from "./parameter-keys.ts";

const harmlessPrefixes = ["app.kubernetes.io", "prometheus.io"];

/** Whether a Gateway may put a key on other objects than its Service. */
export function isTenantMetadata(key: string): boolean {
  const slash = key.indexOf("/");
  return slash === -1 || harmlessPrefixes.includes(key.slice(0, slash));
}

export interface Metadata {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** What a Gateway's infrastructure puts on its Service, and on every other object. */
export function infrastructureOf(gateway: Gateway, on: "Service" | "others"): Metadata {
  const { labels = {}, annotations = {} } = gateway.spec.infrastructure ?? {};
  if (on === "Service") return { labels, annotations };
  return { labels: harmless(labels), annotations: harmless(annotations) };
}

function harmless(map: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(map).filter(([key]) => isTenantMetadata(key)));
}

/** What a Gateway's infrastructure puts on pods. @param selected keys by which Services of its namespace select pods. */
export function podMetadataOf(gateway: Gateway, selected: ReadonlySet<string>): Metadata {
  const { labels, annotations } = infrastructureOf(gateway, "others");
  return { labels: withoutSelected(labels, selected), annotations };
}

function withoutSelected<T>(labels: Readonly<Record<string, T>>, selected: ReadonlySet<string>) {
  return Object.fromEntries(Object.entries(labels).filter(([key]) => isPodLabel(key, selected)));
}

/**
 * Keys by which Services, disruption budgets and network policies commonly select pods. A pod that has such a label may
 * receive the traffic of another workload of its namespace, or pass as one of its pods.
 */
const commonlySelected: ReadonlySet<string> = new Set([
  ...["app", "component", "instance", "k8s-app", "name", "part-of", "release"],
  ...["role", "run", "service", "tier", "version"],
]);

export const nothingSelected: ReadonlySet<string> = new Set();

/** Whether a Gateway may label its pods with a key. */
export function isPodLabel(key: string, selected: ReadonlySet<string>): boolean {
  return !key.includes("/") && !commonlySelected.has(key) && !selected.has(key);
}

/** Keys of labels by which the Services of a namespace select pods. */
export function selectedKeys(services: readonly Service[]): (namespace: string) => ReadonlySet<string> {
  const byNamespace = Map.groupBy(services, ({ metadata }) => metadata.namespace);
  return (namespace) => {
    const there = byNamespace.get(namespace) ?? [];
    return new Set(there.flatMap(({ spec }) => Object.keys(spec.selector ?? {})));
  };
}

/** A Gateway's own parameters without labels of pods that Services of its namespace select by. */
export function withoutSelectedLabels(parameters: Parameters, selected: ReadonlySet<string>): Parameters {
  const spec = fieldsOf(parameters.deployment?.["spec"]);
  const template = fieldsOf(spec["template"]);
  const metadata = fieldsOf(template["metadata"]);
  const labels = fieldsOf(metadata["labels"]);
  if (!Object.keys(labels).some((key) => selected.has(key))) return parameters;
  const left = { ...metadata, labels: withoutSelected(labels, selected) };
  return {
    ...parameters,
    deployment: { ...parameters.deployment, spec: { ...spec, template: { ...template, metadata: left } } },
  };
}

/**
 * Whether labels or annotations of a class decide about a key: they have it, or another one of its prefix. Keys of one
 * prefix are read together (those of a load balancer), and one may undo what another one says.
 */
export function isDecidedBy(ofClass: Readonly<Record<string, unknown>>, key: string): boolean {
  if (Object.hasOwn(ofClass, key)) return true;
  const slash = key.indexOf("/");
  return slash !== -1 && Object.keys(ofClass).some((each) => each.startsWith(key.slice(0, slash + 1)));
}

/** The Gateway without labels and annotations about which the Service of its class decides. */
export function besideClass(gateway: Gateway, ofClass: Parameters): Gateway {
  const { infrastructure } = gateway.spec;
  if (infrastructure === undefined) return gateway;
  const decided = fieldsOf(ofClass.service?.["metadata"]);
  const left = (field: "labels" | "annotations") => {
    const keys = Object.entries(infrastructure[field] ?? {});
    return Object.fromEntries(keys.filter(([key]) => !isDecidedBy(fieldsOf(decided[field]), key)));
  };
  const confined = { ...infrastructure, labels: left("labels"), annotations: left("annotations") };
  return { ...gateway, spec: { ...gateway.spec, infrastructure: confined } };
}

/** What decides about the labels and annotations of a Gateway's objects beside the Gateway. */
export interface MetadataBounds {
  /** Keys of labels by which Services of its namespace select pods. */
  readonly selected: ReadonlySet<string>;
  readonly ofClass: Parameters;
}

/** The keys that are not put on every object; the status names them. */
export function limitedMetadata(asked: Gateway, { selected, ofClass }: MetadataBounds): readonly Finding<"Unserved">[] {
  const gateway = besideClass(asked, ofClass);
  const { labels = {}, annotations = {} } = gateway.spec.infrastructure ?? {};
  const decided = Object.entries({ labels, annotations }).flatMap(([field, left]) => {
    const all = asked.spec.infrastructure?.[field === "labels" ? "labels" : "annotations"] ?? {};
    const keys = Object.keys(all).filter((key) => !Object.hasOwn(left, key));
    return unserved(field, keys, `are left out, as the GatewayClass ${asked.spec.gatewayClassName} decides about them`);
  });
  const onService = Object.entries({ labels, annotations }).flatMap(([field, map]) => {
    const keys = Object.keys(map).filter((key) => !isTenantMetadata(key));
    const why = "are put on the Service only, as their prefixes mean something to other controllers";
    return unserved(field, keys, why);
  });
  const selecting = Object.keys(labels).filter((key) => isTenantMetadata(key) && !isPodLabel(key, selected));
  return [
    ...decided,
    ...onService,
    ...unserved("labels", selecting, "are not put on pods, as Services or network policies select pods by them"),
  ];
}

function unserved(field: string, keys: readonly string[], why: string): readonly Finding<"Unserved">[] {
  if (keys.length === 0) return [];
  const message = `infrastructure.${field} ${keys.join(", ")} ${why}`;
  return [{ reason: "Unserved", message, path: ["spec", "infrastructure", field] }];
}
