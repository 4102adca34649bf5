/** Service (core v1): names the ports under which its EndpointSlices are reached. Other fields do not concern us. */
import * as z from "zod";
import { namespacedMetadata } from "./metadata.ts";
import { anyText, type Immutable, portNumber, textMap } from "./schema.ts";

export const serviceSchema = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("Service"),
  metadata: namespacedMetadata,
  spec: z
    .object({
      type: z.enum(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]).default("ClusterIP"),
      /** Labels of the pods that it sends to; absent where its endpoints are kept by others. */
      selector: textMap.optional(),
      ports: z
        .array(
          z.object({
            /** Absent where the Service has one port. */
            name: anyText.optional(),
            port: portNumber,
            protocol: anyText.default("TCP"),
            appProtocol: anyText.optional(),
          }),
        )
        .default([]),
    })
    .default({ type: "ClusterIP", ports: [] }),
});

export type Service = Immutable<z.output<typeof serviceSchema>>;
export type ServicePort = Service["spec"]["ports"][number];
