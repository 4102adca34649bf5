/** Gateways as manifests, and the plan of a controller for them. */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { parseManifests } from "../../api/parse-manifests.ts";
import type { RejectedResource } from "../../api/rejected-resource.ts";
import type { ResourceSet } from "../../api/resource.ts";
import { noCredentials } from "../../translate/tls/credentials.ts";
import { type Plan, planFor } from "../plan.ts";
import { proxyDefaults } from "./proxy-defaults.ts";

/** The class `ours` of the controller. */
export const gatewayClass = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: ours}
spec: {controllerName: gatewayproxy.dev/controller}
---`;

/** Fields that differ from those of a Gateway with one listener. */
export interface GatewayFields {
  readonly className?: string;
  readonly listeners?: string;
  readonly infrastructure?: string;
  readonly more?: string;
}

/** A listener at port 80, as flow YAML. */
export const http = "{name: http, port: 80, protocol: HTTP}";

/** A Gateway in the namespace `infra`. */
export function gateway(name: string, fields: GatewayFields = {}): string {
  const { className = "ours", listeners = http, infrastructure = "{}", more = "" } = fields;
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ${name}, namespace: infra, uid: uid-of-${name}}
spec: {gatewayClassName: ${className}, listeners: [${listeners}], infrastructure: ${infrastructure}, ${more}}
---`;
}

/** Returns the resources of manifests. Throws if they have problems. */
export function resourcesOf(...manifests: readonly string[]): ResourceSet {
  const { resources, problems } = parseManifests([{ path: "a.yaml", text: manifests.join("\n") }]);
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return resources;
}

/** Returns the plan for resources with the defaults of `proxy-defaults.ts`. */
export const plan = (resources: ResourceSet, rejected: readonly RejectedResource[] = []): Plan =>
  runToEnd(planFor({ resources, rejected, unreadable: new Set(), crowded: new Set() }, proxyDefaults, noCredentials));
