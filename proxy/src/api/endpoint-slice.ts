/** EndpointSlice (discovery.k8s.io/v1): the endpoints of a Service and their readiness. */
import * as z from "zod";
import { labelsOf, namespacedMetadata } from "./metadata.ts";
import { anyText, firstOf, type Immutable, portNumber } from "./schema.ts";
import { maxServicePorts } from "./service.ts";

/** The label with the name of the Service, which is in the namespace of the slice. */
export const serviceNameLabel = "kubernetes.io/service-name";

/** An endpoint as it is listed: all of its addresses, and the conditions of its pod. */
const listedEndpoint = z.object({
  addresses: z.array(anyText).min(1),
  /** Unknown `ready` counts as true; unknown `serving` has the value of `ready` (API of EndpointSlice). */
  conditions: z.object({ ready: z.boolean().default(true), serving: z.boolean().optional() }).default({ ready: true }),
  targetRef: z.object({ kind: anyText.optional(), name: anyText.optional() }).optional(),
});

/** Maximum length of the name of a pod, as of any object. The API server does not check it here. */
export const maxNameLength = 253;

/**
 * An endpoint of a slice. A cluster has very many of them and each process keeps all, so it has only what is used: two
 * texts, and nothing nested.
 */
export interface SliceEndpoint {
  /** The first address. All addresses of an endpoint belong to the same pod (API of EndpointSlice). */
  readonly host: string;
  /** The name of the pod; `host` if there is none. */
  readonly name: string;
  /** `serving`: it is not ready, and it serves, because its pod ends (KEP-1672). */
  readonly state: "ready" | "serving" | "unavailable";
}

function compactEndpoint({ addresses, conditions, targetRef }: z.output<typeof listedEndpoint>): SliceEndpoint {
  const [host = ""] = addresses;
  const { ready, serving = ready } = conditions;
  const { name = host } = targetRef ?? {};
  return {
    host,
    name: name.length <= maxNameLength ? name : host,
    state: ready ? "ready" : serving ? "serving" : "unavailable",
  };
}

/** Schema of an EndpointSlice. */
export const endpointSliceSchema = z.object({
  apiVersion: z.literal("discovery.k8s.io/v1"),
  kind: z.literal("EndpointSlice"),
  metadata: namespacedMetadata.extend({ labels: labelsOf(serviceNameLabel) }),
  addressType: z.enum(["IPv4", "IPv6", "FQDN"]),
  endpoints: z.array(listedEndpoint.transform(compactEndpoint)).default([]),
  ports: firstOf(
    maxServicePorts,
    z.object({
      /** Empty for the only port of a Service that does not name it. */
      name: anyText.default(""),
      port: portNumber.optional(),
      protocol: anyText.default("TCP"),
    }),
  ).default([]),
});

/** A parsed EndpointSlice. */
export type EndpointSlice = Immutable<z.output<typeof endpointSliceSchema>>;
