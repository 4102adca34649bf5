/** EndpointSlice (discovery.k8s.io/v1): addresses behind a Service, and which of them are ready. */
import * as z from "zod";
import { namespacedMetadata } from "./metadata.ts";
import { anyText, type Immutable, portNumber } from "./schema.ts";

/** Label that names the Service, in the slice's own namespace. */
export const serviceNameLabel = "kubernetes.io/service-name";

export const endpointSliceSchema = z.object({
  apiVersion: z.literal("discovery.k8s.io/v1"),
  kind: z.literal("EndpointSlice"),
  metadata: namespacedMetadata,
  addressType: z.enum(["IPv4", "IPv6", "FQDN"]),
  endpoints: z
    .array(
      z.object({
        addresses: z.array(anyText).min(1),
        /** Unknown readiness counts as ready, says the API; unknown service as readiness. */
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
        /** Empty for the one port of a Service that does not name it. */
        name: anyText.default(""),
        port: portNumber.optional(),
        protocol: anyText.default("TCP"),
      }),
    )
    .default([]),
});

export type EndpointSlice = Immutable<z.output<typeof endpointSliceSchema>>;
export type SliceEndpoint = EndpointSlice["endpoints"][number];
