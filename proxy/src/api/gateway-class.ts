/** GatewayClass (Gateway API v1.6): which controller serves the Gateways that name it. */
import * as z from "zod";
import {
  clusterMetadata,
  gatewayApiVersions,
  readableClusterMetadata,
  remainsReader,
  strictResource,
} from "./metadata.ts";
import { anyText, group, type Immutable, kindName, namespaceName, strictObject, targetName, text } from "./schema.ts";

const controllerName = text("a domain and path such as gatewayproxy.dev/controller", {
  max: 253,
  pattern: /^[a-z0-9][-a-z0-9.]*\/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$/,
});

/** What holds a class back that is to be deleted, and since when it is. */
const finalizers = z.array(anyText).optional();
const deletionTimestamp = anyText.optional();

export const gatewayClassSchema = strictResource({
  apiVersions: gatewayApiVersions,
  kind: "GatewayClass",
  metadata: clusterMetadata.extend({ finalizers, deletionTimestamp }),
  spec: strictObject({
    controllerName,
    description: text("at most 64 characters", { min: 0, max: 64 }).optional(),
    parametersRef: strictObject({
      group,
      kind: kindName,
      name: targetName,
      namespace: namespaceName.optional(),
    }).optional(),
  }),
});

type SoundClass = Immutable<z.output<typeof gatewayClassSchema>>;

export interface GatewayClass extends Omit<SoundClass, "spec"> {
  readonly spec: SoundClass["spec"] & {
    /** Of a class that is refused: whose it is is known, what else it says is not. */
    readonly isRefused?: true;
  };
}

/**
 * What is left of a class that is refused: whose it is. Were it forgotten as a whole, its Gateways would be nobody's.
 * Undefined where it has no name or no controller.
 */
export const refusedGatewayClass = remainsReader(
  "GatewayClass",
  z.object({
    metadata: readableClusterMetadata.extend({
      finalizers: finalizers.catch(undefined),
      deletionTimestamp: deletionTimestamp.catch(undefined),
    }),
    spec: z.object({ controllerName }).transform((spec) => ({ ...spec, isRefused: true as const })),
  }),
);
