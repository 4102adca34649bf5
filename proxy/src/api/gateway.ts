/**
 * Gateway (Gateway API v1.7 `Gateway`, standard channel): listeners, their addresses, and who may attach ListenerSets.
 */
import * as z from "zod";
import { listeners, secretReference } from "./listener.ts";
import { gatewayApiVersions, namespacedMetadata, readableMetadata, remainsReader, strictResource } from "./metadata.ts";
import {
  anyText,
  group,
  type Immutable,
  kindName,
  labelSelector,
  list,
  namespaceName,
  portNumber,
  strictObject,
  targetName,
  text,
  textMap,
} from "./schema.ts";

const address = strictObject({
  type: text("IPAddress, Hostname or a domain-prefixed type", { max: 253 }).default("IPAddress"),
  value: text("an address of at most 253 characters", { min: 0, max: 253 }).optional(),
});

const addresses = list(address, { max: 16 }).superRefine((all, context) => {
  const seen = new Set<string>();
  all.forEach(({ type, value }, index) => {
    if (value === undefined || value === "") return;
    const key = `${type} ${value}`;
    if (seen.has(key)) context.addIssue({ code: "custom", path: [index], message: `${key} is named twice` });
    seen.add(key);
  });
});

const objectReference = strictObject({
  group,
  kind: kindName,
  name: targetName,
  namespace: namespaceName.optional(),
});

const frontendTls = strictObject({
  validation: strictObject({
    caCertificateRefs: list(objectReference, { min: 1, max: 16 }),
    mode: z.enum(["AllowValidOnly", "AllowInsecureFallback"]).default("AllowValidOnly"),
  }).optional(),
});

const gatewayTls = strictObject({
  backend: strictObject({ clientCertificateRef: secretReference.optional() }).optional(),
  frontend: strictObject({
    default: frontendTls,
    perPort: list(strictObject({ port: portNumber, tls: frontendTls }), { max: 64 })
      .superRefine((all, context) => {
        all.forEach(({ port }, index) => {
          if (all.findIndex((other) => other.port === port) === index) return;
          context.addIssue({ code: "custom", path: [index, "port"], message: `port ${port} is named twice` });
        });
      })
      .default([]),
  }).optional(),
});

const infrastructure = strictObject({
  labels: textMap.optional(),
  annotations: textMap.optional(),
  parametersRef: strictObject({ group, kind: kindName, name: targetName }).optional(),
});

const allowedListeners = strictObject({
  namespaces: strictObject({
    from: z.enum(["All", "Selector", "Same", "None"]).default("None"),
    selector: labelSelector.optional(),
  }).optional(),
});

/** Schema of a Gateway. */
export const gatewaySchema = strictResource({
  apiVersions: gatewayApiVersions,
  kind: "Gateway",
  metadata: namespacedMetadata,
  spec: strictObject({
    gatewayClassName: targetName,
    listeners,
    addresses: addresses.default([]),
    infrastructure: infrastructure.optional(),
    allowedListeners: allowedListeners.optional(),
    tls: gatewayTls.optional(),
    // Experimental channel. The field is read so that the status reports it as unsupported instead of rejecting the
    // Gateway.
    defaultScope: anyText.optional(),
  }),
});

/** A parsed Gateway; without listeners where only its remains are known (`rejectedGateway`). */
export type Gateway = Immutable<z.output<typeof gatewaySchema>>;

/**
 * Reads the remains of a rejected Gateway: its name and class. Without them, its routes and policies would report that
 * it does not exist. Undefined where it has no name or no class.
 */
export const rejectedGateway = remainsReader(
  "Gateway",
  z.object({
    metadata: readableMetadata,
    spec: z.object({ gatewayClassName: targetName }).transform((spec) => ({ ...spec, listeners: [], addresses: [] })),
  }),
);

/** How client certificates are requested on one port. */
export type FrontendTls = Immutable<z.output<typeof frontendTls>>;
