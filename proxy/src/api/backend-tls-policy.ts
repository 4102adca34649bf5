/**
 * BackendTLSPolicy (Gateway API v1.7, standard channel): TLS to the endpoints of a Service, and how they are verified.
 */
import * as z from "zod";
import { namespacedMetadata, readableMetadata, remainsReader, strictResource } from "./metadata.ts";
import { gatewayGroup } from "./names.ts";
import {
  group,
  hostname,
  type Immutable,
  kindName,
  list,
  preciseHostname,
  sectionName,
  strictObject,
  targetName,
  text,
  textMap,
} from "./schema.ts";

const targetRef = strictObject({ group, kind: kindName, name: targetName, sectionName: sectionName.optional() });

/** Two references to one object must both name a section, and different ones. */
const targetRefs = list(targetRef, { min: 1, max: 16 }).superRefine((refs, context) => {
  refs.forEach((ref, index) => {
    const earlier = refs.slice(0, index).filter((other) => isSameObject(ref, other));
    if (earlier.some((other) => (other.sectionName === undefined) !== (ref.sectionName === undefined))) {
      context.addIssue({
        code: "custom",
        path: [index],
        message: "sectionName is required: the target is named twice",
      });
    } else if (earlier.some((other) => other.sectionName === ref.sectionName)) {
      context.addIssue({ code: "custom", path: [index], message: `${ref.kind} ${ref.name} is named twice` });
    }
  });
});

interface ObjectReference {
  readonly group: string;
  readonly kind: string;
  readonly name: string;
}

function isSameObject(a: ObjectReference, b: ObjectReference): boolean {
  return a.group === b.group && a.kind === b.kind && a.name === b.name;
}

const subjectAltName = strictObject({
  type: z.enum(["Hostname", "URI"]),
  hostname: hostname.optional(),
  uri: text("a URI with a scheme such as spiffe://cluster.local/ns/web", {
    max: 253,
    pattern: /^[a-zA-Z][a-zA-Z0-9+.-]*:[^\s]+$/,
  }).optional(),
}).superRefine(({ type, hostname: name, uri }, context) => {
  const values = { hostname: name, uri };
  const own = type === "Hostname" ? "hostname" : "uri";
  const other = type === "Hostname" ? "uri" : "hostname";
  if (values[own] === undefined) {
    context.addIssue({ code: "custom", path: [own], message: `required where type is ${type}` });
  }
  if (values[other] !== undefined) {
    context.addIssue({ code: "custom", path: [other], message: `must not be set where type is ${type}` });
  }
});

const validation = strictObject({
  caCertificateRefs: list(strictObject({ group, kind: kindName, name: targetName }), { max: 8 }).default([]),
  wellKnownCACertificates: text("System, or a domain-prefixed name such as example.com/custom", {
    max: 253,
    pattern:
      /^(System|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$/,
  }).optional(),
  hostname: preciseHostname,
  subjectAltNames: list(subjectAltName, { max: 5 }).default([]),
}).superRefine(({ caCertificateRefs, wellKnownCACertificates }, context) => {
  if (caCertificateRefs.length > 0 === (wellKnownCACertificates !== undefined)) {
    const message = "exactly one of caCertificateRefs and wellKnownCACertificates is required";
    context.addIssue({ code: "custom", message });
  }
});

/** Schema of a BackendTLSPolicy. */
export const backendTlsPolicySchema = strictResource({
  apiVersions: [`${gatewayGroup}/v1`],
  kind: "BackendTLSPolicy",
  metadata: namespacedMetadata,
  spec: strictObject({ targetRefs, validation, options: textMap.default({}) }),
});

type ValidPolicy = Immutable<z.output<typeof backendTlsPolicySchema>>;
/** `spec.validation` */
export type BackendTlsValidation = ValidPolicy["spec"]["validation"];
/** An item of `spec.targetRefs`. */
export type BackendTlsTargetRef = ValidPolicy["spec"]["targetRefs"][number];

/** A parsed BackendTLSPolicy. */
export interface BackendTlsPolicy extends Omit<ValidPolicy, "spec"> {
  readonly spec: Omit<ValidPolicy["spec"], "validation"> & {
    /**
     * Undefined for a rejected policy: how to verify the endpoints is unknown. Where its targets are unknown, too, it
     * has none, and may apply to any Service of its namespace.
     */
    readonly validation: BackendTlsValidation | undefined;
  };
}

const readableRef = z.object({
  group: group.catch(""),
  kind: kindName.catch("Service"),
  name: targetName,
  sectionName: sectionName.optional().catch(undefined),
});

const readableRefs = z
  .array(z.unknown())
  .transform((refs) => refs.map((ref) => readableRef.safeParse(ref).data))
  // A target that cannot be read may be any Service, as if no target could be read.
  .transform((refs) => (refs.includes(undefined) ? [] : refs.filter((ref) => ref !== undefined)));

/**
 * Reads the remains of a rejected policy: its targets. Without them, their endpoints would be called in plain text. A
 * target that is itself invalid counts as what it most likely means, if need be without its section. Undefined where
 * the policy has no name.
 */
export const rejectedTlsPolicy = remainsReader(
  "BackendTLSPolicy",
  z.object({
    // Name and namespace identify the Services.
    metadata: readableMetadata,
    spec: z
      .object({ targetRefs: readableRefs.catch([]) })
      .catch({ targetRefs: [] })
      .transform((spec) => ({ ...spec, validation: undefined, options: {} })),
  }),
);
