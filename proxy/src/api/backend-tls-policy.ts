/** BackendTLSPolicy (Gateway API v1.6, standard channel): TLS to the servers of a Service, and whom to take them for. */
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

/** Of two references to one object both name a section, and not the same one. */
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
  wellKnownCACertificates: text("System, or a name of somebody's own such as example.com/ours", {
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

export const backendTlsPolicySchema = strictResource({
  apiVersions: [`${gatewayGroup}/v1`],
  kind: "BackendTLSPolicy",
  metadata: namespacedMetadata,
  spec: strictObject({ targetRefs, validation, options: textMap.default({}) }),
});

type SoundPolicy = Immutable<z.output<typeof backendTlsPolicySchema>>;
export type BackendTlsValidation = SoundPolicy["spec"]["validation"];
export type BackendTlsTargetRef = SoundPolicy["spec"]["targetRefs"][number];

export interface BackendTlsPolicy extends Omit<SoundPolicy, "spec"> {
  readonly spec: Omit<SoundPolicy["spec"], "validation"> & {
    /** Undefined of a policy that is refused: nobody knows whom to take its servers for. */
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
  .transform((refs) => refs.flatMap((ref) => readableRef.safeParse(ref).data ?? []))
  .refine((refs) => refs.length > 0);

/**
 * What is left of a policy that is refused: its targets. Were it forgotten as a whole, their servers would be called in
 * the clear. A target that is not sound itself counts as what it most likely means, its port left out if need be.
 * Undefined where the policy has no name, or names no target.
 */
export const refusedTlsPolicy = remainsReader(
  "BackendTLSPolicy",
  z.object({
    // Name and namespace tell whose Services are meant.
    metadata: readableMetadata,
    spec: z.object({ targetRefs: readableRefs }).transform((spec) => ({ ...spec, validation: undefined, options: {} })),
  }),
);
