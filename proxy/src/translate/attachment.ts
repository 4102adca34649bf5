/**
 * Which listeners take which routes (Gateway API `ParentReference`, `AllowedRoutes`): by the parentRef's section and
 * port, then by what the listener allows, then by host name. The first of these that leaves no listener is the reason
 * why the route is not accepted.
 */
import type { AllowedRoutes } from "../api/gateway.ts";
import type { HttpRoute, ParentRef } from "../api/http-route.ts";
import type { FieldPath } from "../api/issue.ts";
import { gatewayGroup } from "../api/names.ts";
import type { Namespace } from "../api/namespace.ts";
import { resourceKey } from "../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../api/resource-problem.ts";
import type { LabelSelector } from "../api/schema.ts";
import type { NotAcceptedReason } from "../api/status.ts";
import type { Finding } from "./finding.ts";
import type { GatewayState, JudgedGateways } from "./gateways.ts";
import { commonHostnames } from "./hostnames.ts";
import type { ListenerState } from "./listeners.ts";

/** A route at one listener. */
export interface Attachment {
  readonly listener: ListenerState;
  /** Of the route, as far as they concern the listener; empty for every host of it. */
  readonly hostnames: readonly string[];
}

/** How one parentRef that names a Gateway of ours fared. */
export interface ParentState {
  readonly parentRef: ParentRef;
  readonly path: FieldPath;
  readonly gateway: GatewayState;
  /** Empty where refused. */
  readonly attachments: readonly Attachment[];
  readonly refusal: Finding<NotAcceptedReason> | undefined;
}

/** Labels of a namespace, by its name. */
export type NamespaceLabels = (namespace: string) => Readonly<Record<string, string>>;

/** The label that every namespace has, as the API server sets it; file mode rarely has Namespace manifests. */
const nameLabel = "kubernetes.io/metadata.name";

export function namespaceLabels(namespaces: readonly Namespace[]): NamespaceLabels {
  const labels = new Map(namespaces.map(({ metadata }) => [metadata.name, metadata.labels]));
  return (namespace) => ({ ...labels.get(namespace), [nameLabel]: namespace });
}

/** Attaches one route to the Gateways of ours that its parentRefs name. */
export function attachRoute(
  route: HttpRoute,
  gateways: JudgedGateways,
  labels: NamespaceLabels,
): { readonly parents: readonly ParentState[]; readonly problems: readonly ResourceProblem[] } {
  const parents: ParentState[] = [];
  const problems: ResourceProblem[] = [];
  route.spec.parentRefs.forEach((parentRef, index) => {
    if (parentRef.kind !== "Gateway" || parentRef.group !== gatewayGroup) return;
    const path = ["spec", "parentRefs", index];
    const name = `${parentRef.namespace ?? route.metadata.namespace}/${parentRef.name}`;
    const gateway = gateways.ours.get(name);
    if (gateway !== undefined) {
      parents.push(attachToParent(route, { parentRef, path, gateway }, labels));
    } else if (!gateways.all.has(name)) {
      // No controller can write a status for a parent that does not exist, so the problem is all that tells.
      const message = `Gateway ${name} does not exist`;
      problems.push(resourceProblem(resourceKey(route), [...path, "name"], message));
    }
  });
  return { parents, problems };
}

type Parent = Pick<ParentState, "parentRef" | "path" | "gateway">;

function attachToParent(route: HttpRoute, parent: Parent, labels: NamespaceLabels): ParentState {
  const { parentRef, path, gateway } = parent;
  const refuse = (reason: NotAcceptedReason, message: string): ParentState => {
    return { ...parent, attachments: [], refusal: { reason, message, path } };
  };

  const named = gateway.listeners.filter(({ listener }) => isNamed(parentRef, listener));
  if (named.length === 0) return refuse("NoMatchingParent", `no listener of the Gateway ${describeAsked(parentRef)}`);

  const allowing = named.filter((state) => allows(state, route, labels));
  if (allowing.length === 0) {
    const names = named.map(({ listener }) => listener.name).join(", ");
    const routes = named.some(takesHttpRoutes) ? `HTTPRoutes of namespace ${route.metadata.namespace}` : "HTTPRoutes";
    return refuse("NotAllowedByListeners", `${routes} may attach to none of the listeners ${names}`);
  }
  const attachments = allowing.flatMap((listener): Attachment[] => {
    const hostnames = commonHostnames(listener.listener.hostname, route.spec.hostnames);
    return hostnames === undefined ? [] : [{ listener, hostnames }];
  });
  if (attachments.length === 0) {
    const listeners = allowing.map(({ listener }) => listener.hostname).join(", ");
    const message = `hostnames ${route.spec.hostnames.join(", ")} have nothing in common with the listeners' ${listeners}`;
    return refuse("NoMatchingListenerHostname", message);
  }
  return { ...parent, attachments, refusal: undefined };
}

function isNamed(ref: ParentRef, listener: { readonly name: string; readonly port: number }): boolean {
  return (
    (ref.sectionName === undefined || ref.sectionName === listener.name) &&
    (ref.port === undefined || ref.port === listener.port)
  );
}

function describeAsked({ sectionName, port }: ParentRef): string {
  const asked = [
    sectionName === undefined ? [] : `has the name ${sectionName}`,
    port === undefined ? [] : `has port ${port}`,
  ];
  return asked.flat().join(" and ");
}

function allows(state: ListenerState, route: HttpRoute, labels: NamespaceLabels): boolean {
  const own = state.gateway.metadata.namespace;
  return takesHttpRoutes(state) && allowsNamespace(state.listener.allowedRoutes, own, route.metadata.namespace, labels);
}

function takesHttpRoutes({ supportedKinds }: ListenerState): boolean {
  return supportedKinds.some(({ group, kind }) => group === gatewayGroup && kind === "HTTPRoute");
}

function allowsNamespace(
  { namespaces: { from, selector } }: AllowedRoutes,
  own: string,
  namespace: string,
  labels: NamespaceLabels,
): boolean {
  switch (from) {
    case "All":
      return true;
    case "Same":
      return namespace === own;
    case "Selector":
      // The API asks for a selector here; without one nothing is selected, which is the safe reading.
      return selector !== undefined && selects(selector, labels(namespace));
  }
}

/** Kubernetes label selectors: all parts must hold; an empty selector selects everything. */
function selects(selector: LabelSelector, labels: Readonly<Record<string, string>>): boolean {
  const valueOf = (key: string) => (Object.hasOwn(labels, key) ? labels[key] : undefined);
  const labelsMatch = Object.entries(selector.matchLabels ?? {}).every(([key, value]) => valueOf(key) === value);
  return (
    labelsMatch &&
    (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
      const value = valueOf(key);
      switch (operator) {
        case "Exists":
          return value !== undefined;
        case "DoesNotExist":
          return value === undefined;
        case "In":
          return value !== undefined && values.includes(value);
        case "NotIn":
          return value === undefined || !values.includes(value);
      }
    })
  );
}
