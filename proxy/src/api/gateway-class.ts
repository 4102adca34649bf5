/** GatewayClass (Gateway API v1.6): which controller serves the Gateways that name it. */
import type * as z from "zod";
import { clusterMetadata, gatewayApiVersions, strictResource } from "./metadata.ts";
import { group, type Immutable, kindName, namespaceName, strictObject, targetName, text } from "./schema.ts";

export const gatewayClassSchema = strictResource({
  apiVersions: gatewayApiVersions,
  kind: "GatewayClass",
  metadata: clusterMetadata,
  spec: strictObject({
    controllerName: text("a domain and path such as gatewayproxy.dev/controller", {
      max: 253,
      pattern: /^[a-z0-9][-a-z0-9.]*\/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$/,
    }),
    description: text("at most 64 characters", { min: 0, max: 64 }).optional(),
    parametersRef: strictObject({
      group,
      kind: kindName,
      name: targetName,
      namespace: namespaceName.optional(),
    }).optional(),
  }),
});

export type GatewayClass = Immutable<z.output<typeof gatewayClassSchema>>;
