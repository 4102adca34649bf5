/** Service (core v1): names the ports of its EndpointSlices. Other fields are not read. */
import * as z from "zod";
import { namespacedMetadata } from "./metadata.ts";
import { anyText, type Immutable, portNumber, textMap } from "./schema.ts";

/** Schema of a Service. */
export const serviceSchema = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("Service"),
  metadata: namespacedMetadata,
  spec: z
    .object({
      type: z.enum(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]).default("ClusterIP"),
      /** Labels of its pods; absent where other controllers write its endpoints. */
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

/** A parsed Service. */
export type Service = Immutable<z.output<typeof serviceSchema>>;
/** An item of `spec.ports`. */
export type ServicePort = Service["spec"]["ports"][number];
