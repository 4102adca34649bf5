/** GatewayClass (Gateway API v1.7): the controller of the Gateways that name the class. */
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

/** Finalizers and the time of deletion of a class that is to be deleted. */
const finalizers = z.array(anyText).optional();
const deletionTimestamp = anyText.optional();

/** Schema of a GatewayClass. */
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

type ValidGatewayClass = Immutable<z.output<typeof gatewayClassSchema>>;

/** A parsed GatewayClass. */
export interface GatewayClass extends Omit<ValidGatewayClass, "spec"> {
  readonly spec: ValidGatewayClass["spec"] & {
    /** Set on a rejected class: its controller is known, its other fields are not. */
    readonly isRejected?: true;
  };
}

/**
 * Reads the remains of a rejected class: its controller. Without them, its Gateways would have no owner. Undefined
 * where the class has no name or no controller.
 */
export const rejectedGatewayClass = remainsReader(
  "GatewayClass",
  z.object({
    metadata: readableClusterMetadata.extend({
      finalizers: finalizers.catch(undefined),
      deletionTimestamp: deletionTimestamp.catch(undefined),
    }),
    spec: z.object({ controllerName }).transform((spec) => ({ ...spec, isRejected: true as const })),
  }),
);
