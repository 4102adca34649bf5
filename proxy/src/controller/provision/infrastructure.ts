/**
 * Labels and annotations that a Gateway asks for (Gateway API `GatewayInfrastructure`). Other controllers act on some of
 * them: on a Service they shape a load balancer, which is what the field is for. On pods they add containers and volumes
 * (sidecar injection), weaken a security profile, or on a ServiceAccount give a cloud identity. So a key with a prefix
 * goes on the Service alone, unless the prefix is known to be harmless.
 */
import type { Gateway } from "../../api/gateway.ts";
import type { Finding } from "../../translate/finding.ts";

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

/** The keys that are on the Service alone, told so that nobody looks for them on pods. */
export function serviceOnly(gateway: Gateway): readonly Finding<"Unserved">[] {
  const { labels = {}, annotations = {} } = gateway.spec.infrastructure ?? {};
  return Object.entries({ labels, annotations }).flatMap(([field, map]) => {
    const keys = Object.keys(map).filter((key) => !isTenantMetadata(key));
    if (keys.length === 0) return [];
    const message = `infrastructure.${field} ${keys.join(", ")} are put on the Service only, as their prefixes mean something to other controllers`;
    return [{ reason: "Unserved", message, path: ["spec", "infrastructure", field] }];
  });
}
