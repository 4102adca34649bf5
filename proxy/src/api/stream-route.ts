/**
 * TLSRoute, TCPRoute and UDPRoute (Gateway API v1.7, standard channel, with the earlier versions of the experimental
 * channel): relay connections of the listeners of their parents, or datagrams, to backends.
 */
import { isIP } from "node:net";
import * as z from "zod";
import { backendReference, missingServicePort, namesServicePort } from "./http-route-filter.ts";
import { namespacedMetadata, strictResource } from "./metadata.ts";
import { gatewayGroup } from "./names.ts";
import { parentRefs } from "./route-parts.ts";
import { anyText, hostname, type Immutable, integer, list, sectionName, strictObject } from "./schema.ts";

const backendRef = strictObject({
  ...backendReference,
  weight: integer(0, 1_000_000).default(1),
}).refine(namesServicePort, missingServicePort);

const rule = strictObject({
  name: sectionName.optional(),
  backendRefs: list(backendRef, { min: 1, max: 16 }),
});

/** The bounds of v1alpha2, which are the widest. Rules have no matches, so later versions allow one rule only. */
const rules = list(rule, { min: 1, max: 16 }).superRefine((all, context) => {
  all.forEach(({ name }, index) => {
    if (name === undefined || all.findIndex((other) => other.name === name) === index) return;
    context.addIssue({ code: "custom", path: [index, "name"], message: `a second rule has the name "${name}"` });
  });
});

const common = {
  parentRefs: parentRefs.default([]),
  rules,
  // As in an HTTPRoute.
  useDefaultGateways: anyText.optional(),
};

const v1 = `${gatewayGroup}/v1` as const;
const v1alpha3 = `${gatewayGroup}/v1alpha3` as const;
const v1alpha2 = `${gatewayGroup}/v1alpha2` as const;

/** A route as far as its version restricts it. */
interface VersionedRoute {
  readonly apiVersion: string;
  readonly spec: { readonly rules: readonly unknown[]; readonly hostnames?: readonly string[] };
}

/** The CRD's rules that v1alpha2 does not have. */
function checkVersion({ apiVersion, spec }: VersionedRoute, context: z.core.$RefinementCtx): void {
  if (apiVersion === v1alpha2) return;
  const report = (message: string, ...path: readonly (string | number)[]): void => {
    context.addIssue({ code: "custom", path: ["spec", ...path], message });
  };
  if (spec.rules.length > 1) report(`found ${spec.rules.length} rules, accepted is 1`, "rules");
  if (spec.hostnames === undefined) return;
  if (spec.hostnames.length === 0) report("missing, required is at least 1 host name", "hostnames");
  spec.hostnames.forEach((name, index) => {
    if (isIP(name) !== 0) report(`found ${name}, accepted is a host name and no IP address`, "hostnames", index);
  });
}

/** The most host names of the versions other than v1. */
const maxAlphaHostnames = 16;

/** Schema of a TLSRoute. */
export const tlsRouteSchema = strictResource({
  apiVersions: [v1, v1alpha3, v1alpha2],
  kind: "TLSRoute",
  metadata: namespacedMetadata,
  spec: strictObject({ ...common, hostnames: list(hostname, { max: 1024 }).default([]) }),
}).superRefine((route, context) => {
  checkVersion(route, context);
  const found = route.spec.hostnames.length;
  if (route.apiVersion === v1 || found <= maxAlphaHostnames) return;
  const message = `found ${found} host names, accepted are at most ${maxAlphaHostnames}`;
  context.addIssue({ code: "custom", path: ["spec", "hostnames"], message });
});

/** Schema of a TCPRoute. */
export const tcpRouteSchema = schemaOf("TCPRoute");
/** Schema of a UDPRoute. */
export const udpRouteSchema = schemaOf("UDPRoute");

/** Returns the schema of a kind without host names. */
function schemaOf<Kind extends "TCPRoute" | "UDPRoute">(kind: Kind) {
  const spec = strictObject(common);
  return strictResource({ apiVersions: [v1, v1alpha2], kind, metadata: namespacedMetadata, spec }).superRefine(
    checkVersion,
  );
}

/** A parsed TLSRoute. */
export type TlsRoute = Immutable<z.output<typeof tlsRouteSchema>>;
/** A parsed TCPRoute. */
export type TcpRoute = Immutable<z.output<typeof tcpRouteSchema>>;
/** A parsed UDPRoute. */
export type UdpRoute = Immutable<z.output<typeof udpRouteSchema>>;
