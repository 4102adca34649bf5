/**
 * Labels and annotations that a Gateway requests (Gateway API `GatewayInfrastructure`). Other controllers act on some
 * of them. On a Service they configure a load balancer, which is the purpose of the field. On pods they add containers
 * and volumes (sidecar injection) or weaken a security profile; on a ServiceAccount they grant a cloud identity. A key
 * with a prefix is therefore set on the Service only, unless the prefix is known to be harmless.
 */
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { Gateway } from "../../api/gateway.ts";
import type { Service } from "../../api/service.ts";
import { fieldsOf } from "../../kube/object.ts";
import type { Finding } from "../../translate/status/finding.ts";
import type { Parameters } from "./parameter-keys.ts";

const harmlessPrefixes = ["app.kubernetes.io", "prometheus.io"];

/** Whether a Gateway may set a label or annotation key on objects other than its Service. */
export function isHarmlessKey(key: string): boolean {
  const slash = key.indexOf("/");
  return slash === -1 || harmlessPrefixes.includes(key.slice(0, slash));
}

/** Labels and annotations. */
export interface Metadata {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Returns the labels and annotations of a Gateway's infrastructure for its Service, or for every other object. */
export function infrastructureOf(gateway: Gateway, on: "Service" | "others"): Metadata {
  const { labels = {}, annotations = {} } = gateway.spec.infrastructure ?? {};
  if (on === "Service") return { labels, annotations };
  return { labels: withHarmlessKeys(labels), annotations: withHarmlessKeys(annotations) };
}

function withHarmlessKeys(map: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(map).filter(([key]) => isHarmlessKey(key)));
}

/**
 * Returns the labels and annotations of a Gateway's infrastructure for its pods.
 *
 * @param selected label keys by which Services of its namespace select pods.
 */
export function podMetadataOf(gateway: Gateway, selected: ReadonlySet<string>): Metadata {
  const { labels, annotations } = infrastructureOf(gateway, "others");
  return { labels: withoutSelected(labels, selected), annotations };
}

function withoutSelected<T>(labels: Readonly<Record<string, T>>, selected: ReadonlySet<string>) {
  return Object.fromEntries(Object.entries(labels).filter(([key]) => isPodLabel(key, selected)));
}

/**
 * Keys by which Services, disruption budgets and network policies commonly select pods. A pod with such a label may
 * receive the traffic of another workload of its namespace, or be treated as one of its pods.
 */
const commonlySelected: ReadonlySet<string> = new Set([
  ...["app", "component", "instance", "k8s-app", "name", "part-of", "release"],
  ...["role", "run", "service", "tier", "version"],
]);

/** No selected keys. */
export const nothingSelected: ReadonlySet<string> = new Set();

/** Whether a Gateway may set a label key on its pods. */
export function isPodLabel(key: string, selected: ReadonlySet<string>): boolean {
  return !key.includes("/") && !commonlySelected.has(key) && !selected.has(key);
}

/** Returns a function that looks up the label keys by which the Services of a namespace select pods. */
export const selectedKeys = memoised((services: readonly Service[]): ((namespace: string) => ReadonlySet<string>) => {
  const byNamespace = Map.groupBy(services, ({ metadata }) => metadata.namespace);
  // A namespace may have thousands of Gateways, which look up the same keys, and thousands of keys.
  const keysByNamespace = new Map<string, ReadonlySet<string>>();
  return (namespace) => {
    const servicesThere = byNamespace.get(namespace) ?? [];
    const keys =
      keysByNamespace.get(namespace) ?? new Set(servicesThere.flatMap(({ spec }) => Object.keys(spec.selector ?? {})));
    keysByNamespace.set(namespace, keys);
    return keys;
  };
});

/** Returns a Gateway's parameters without pod labels by which Services of its namespace select pods. */
export function withoutSelectedLabels(parameters: Parameters, selected: ReadonlySet<string>): Parameters {
  const spec = fieldsOf(parameters.deployment?.["spec"]);
  const template = fieldsOf(spec["template"]);
  const metadata = fieldsOf(template["metadata"]);
  const labels = fieldsOf(metadata["labels"]);
  if (!Object.keys(labels).some((key) => selected.has(key))) return parameters;
  const remaining = { ...metadata, labels: withoutSelected(labels, selected) };
  return {
    ...parameters,
    deployment: { ...parameters.deployment, spec: { ...spec, template: { ...template, metadata: remaining } } },
  };
}

/**
 * Whether the labels or annotations of a class take precedence for a key: they contain it, or another key with its
 * prefix. A load balancer reads all keys of one prefix together, and one may cancel another.
 */
export function isSetByClass(ofClass: Readonly<Record<string, unknown>>, key: string): boolean {
  if (Object.hasOwn(ofClass, key)) return true;
  const slash = key.indexOf("/");
  return slash !== -1 && Object.keys(ofClass).some((each) => each.startsWith(key.slice(0, slash + 1)));
}

/** Returns the Gateway without the labels and annotations for which the parameters of its class take precedence. */
export function withoutKeysOfClass(gateway: Gateway, ofClass: Parameters): Gateway {
  const { infrastructure } = gateway.spec;
  if (infrastructure === undefined) return gateway;
  const decided = fieldsOf(ofClass.service?.["metadata"]);
  const remaining = (field: "labels" | "annotations") => {
    const keys = Object.entries(infrastructure[field] ?? {});
    return Object.fromEntries(keys.filter(([key]) => !isSetByClass(fieldsOf(decided[field]), key)));
  };
  const confined = { ...infrastructure, labels: remaining("labels"), annotations: remaining("annotations") };
  return { ...gateway, spec: { ...gateway.spec, infrastructure: confined } };
}

/** The restrictions on the labels and annotations of a Gateway's objects. */
export interface MetadataBounds {
  /** Label keys by which Services of its namespace select pods. */
  readonly selected: ReadonlySet<string>;
  /** The parameters of the Gateway's class. */
  readonly ofClass: Parameters;
}

/** Returns a finding for each group of keys that is not set on every object. The status of the Gateway reports them. */
export function unsupportedMetadata(
  requested: Gateway,
  { selected, ofClass }: MetadataBounds,
): readonly Finding<"Unsupported">[] {
  const gateway = withoutKeysOfClass(requested, ofClass);
  const { labels = {}, annotations = {} } = gateway.spec.infrastructure ?? {};
  const decided = Object.entries({ labels, annotations }).flatMap(([field, left]) => {
    const all = requested.spec.infrastructure?.[field === "labels" ? "labels" : "annotations"] ?? {};
    const keys = Object.keys(all).filter((key) => !Object.hasOwn(left, key));
    return unsupportedKeys(
      field,
      keys,
      `have no effect, since the parameters of the GatewayClass ${requested.spec.gatewayClassName} set them or keys of the same prefix`,
    );
  });
  const onService = Object.entries({ labels, annotations }).flatMap(([field, map]) => {
    const keys = Object.keys(map).filter((key) => !isHarmlessKey(key));
    const reason = "are set on the Service only, since other controllers interpret their prefixes";
    return unsupportedKeys(field, keys, reason);
  });
  const selecting = Object.keys(labels).filter((key) => isHarmlessKey(key) && !isPodLabel(key, selected));
  return [
    ...decided,
    ...onService,
    ...unsupportedKeys(
      "labels",
      selecting,
      "are not set on pods, since Services or NetworkPolicies may select pods by them",
    ),
  ];
}

function unsupportedKeys(field: string, keys: readonly string[], reason: string): readonly Finding<"Unsupported">[] {
  if (keys.length === 0) return [];
  const message = `infrastructure.${field} ${keys.join(", ")} ${reason}`;
  return [{ reason: "Unsupported", message, path: ["spec", "infrastructure", field] }];
}
