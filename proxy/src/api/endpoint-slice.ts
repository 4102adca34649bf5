/** EndpointSlice (discovery.k8s.io/v1): the endpoints of a Service and their readiness. */
import * as z from "zod";
import { namespacedMetadata } from "./metadata.ts";
import { anyText, type Immutable, portNumber } from "./schema.ts";

/** The label with the name of the Service, which is in the namespace of the slice. */
export const serviceNameLabel = "kubernetes.io/service-name";

/** Schema of an EndpointSlice. */
export const endpointSliceSchema = z.object({
  apiVersion: z.literal("discovery.k8s.io/v1"),
  kind: z.literal("EndpointSlice"),
  metadata: namespacedMetadata,
  addressType: z.enum(["IPv4", "IPv6", "FQDN"]),
  endpoints: z
    .array(
      z.object({
        addresses: z.array(anyText).min(1),
        /** Unknown `ready` counts as true; unknown `serving` has the value of `ready` (API of EndpointSlice). */
        conditions: z
          .object({ ready: z.boolean().default(true), serving: z.boolean().optional() })
          .default({ ready: true }),
        targetRef: z.object({ kind: anyText.optional(), name: anyText.optional() }).optional(),
      }),
    )
    .default([]),
  ports: z
    .array(
      z.object({
        /** Empty for the only port of a Service that does not name it. */
        name: anyText.default(""),
        port: portNumber.optional(),
        protocol: anyText.default("TCP"),
      }),
    )
    .default([]),
});

/** A parsed EndpointSlice. */
export type EndpointSlice = Immutable<z.output<typeof endpointSliceSchema>>;
/** An item of `endpoints`. */
export type SliceEndpoint = EndpointSlice["endpoints"][number];
