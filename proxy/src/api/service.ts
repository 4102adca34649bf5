/** Service (core v1): names the ports of its EndpointSlices. Other fields are not read. */
import * as z from "zod";
import { labelsOf, namespacedMetadata } from "./metadata.ts";
import { gatewayNameLabel } from "./names.ts";
import { anyText, firstOf, type Immutable, portNumber, textMap } from "./schema.ts";

/**
 * Ports that are read. The API server accepts 65,535 of each protocol, and each process keeps those of all Services.
 */
export const maxServicePorts = 1_024;

/** Labels of a selector that are read: a pod has few, and it must have all of them. */
export const maxSelectorLabels = 64;

/** Schema of a Service. */
export const serviceSchema = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("Service"),
  metadata: namespacedMetadata.extend({ labels: labelsOf(gatewayNameLabel) }),
  spec: z
    .object({
      type: z.enum(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]).default("ClusterIP"),
      /** Labels of its pods; absent where other controllers write its endpoints. */
      selector: textMap
        .transform((all) => Object.fromEntries(Object.entries(all).slice(0, maxSelectorLabels)))
        .optional(),
      ports: firstOf(
        maxServicePorts,
        z.object({
          /** Absent where the Service has one port. */
          name: anyText.optional(),
          port: portNumber,
          protocol: anyText.default("TCP"),
          appProtocol: anyText.optional(),
        }),
      ).default([]),
    })
    .default({ type: "ClusterIP", ports: [] }),
});

/** A parsed Service. */
export type Service = Immutable<z.output<typeof serviceSchema>>;
/** An item of `spec.ports`. */
export type ServicePort = Service["spec"]["ports"][number];
