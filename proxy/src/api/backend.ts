/**
 * Backend (gatewayproxy.dev/v1alpha1): a target that is not a Service. `static` is one address; `ai` is an LLM provider,
 * whose address, path and credentials have defaults.
 */
import { isIP } from "node:net";
import * as z from "zod";
import { namespacedMetadata, strictResource } from "./metadata.ts";
import { proxyGroup } from "./names.ts";
import { type Immutable, leaf, objectName, portNumber, preciseHostname, strictObject, text } from "./schema.ts";

const host = leaf<string>("a host name or an IP address", (value) => {
  if (typeof value !== "string" || value.length > 253) return false;
  return isIP(value) !== 0 || /^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$/.test(value);
});

const tls = strictObject({
  /** Server name to send and to verify; default: the host. */
  hostname: preciseHostname.optional(),
  /** A Secret of the Backend's own namespace; the authorities of its key `ca.crt` are trusted, and no others. */
  caRef: strictObject({ name: objectName }).optional(),
  /** A Secret of the Backend's own namespace, of type kubernetes.io/tls: shown to a server that asks for one. */
  clientCertificateRef: strictObject({ name: objectName }).optional(),
});

const staticBackend = strictObject({ host, port: portNumber, tls: tls.optional() });

const provider = strictObject({
  /** Replaces the model that the client asked for. */
  model: text("a model's name of at most 256 characters", { max: 256 }).optional(),
});

const auth = strictObject({
  /** A Secret of the Backend's own namespace; its key `apiKey` is sent. */
  secretRef: strictObject({ name: objectName }).optional(),
  /** The client's own credentials go to the provider. */
  passthrough: strictObject({}).optional(),
}).superRefine((value, context) => exactlyOne(value, ["secretRef", "passthrough"], context));

const aiBackend = strictObject({
  provider: strictObject({ openai: provider.optional(), anthropic: provider.optional() }).superRefine(
    (value, context) => exactlyOne(value, ["openai", "anthropic"], context),
  ),
  host: host.optional(),
  port: portNumber.optional(),
  path: leaf<string>(
    "an absolute path such as /openai, without query",
    (value) => typeof value === "string" && value.length <= 1024 && /^\/[-A-Za-z0-9/._~!$&'()*+,;=:@%]*$/.test(value),
  ).optional(),
  /** Absent means `passthrough`. */
  auth: auth.optional(),
  tls: tls.optional(),
});

export const backendSchema = strictResource({
  apiVersions: [`${proxyGroup}/v1alpha1`],
  kind: "Backend",
  metadata: namespacedMetadata,
  spec: strictObject({ static: staticBackend.optional(), ai: aiBackend.optional() }).superRefine((value, context) =>
    exactlyOne(value, ["static", "ai"], context),
  ),
});

export type Backend = Immutable<z.output<typeof backendSchema>>;
export type StaticBackend = Immutable<z.output<typeof staticBackend>>;
export type BackendTls = Immutable<z.output<typeof tls>>;
export type AiBackend = Immutable<z.output<typeof aiBackend>>;

/** Adds an issue unless exactly one of the fields is set. */
function exactlyOne(
  value: Readonly<Record<string, unknown>>,
  fields: readonly string[],
  context: z.core.$RefinementCtx,
) {
  const set = fields.filter((field) => value[field] !== undefined);
  if (set.length === 1) return;
  const found = set.length === 0 ? "neither" : "both";
  context.addIssue({ code: "custom", message: `found ${found}, accepted is exactly one of ${fields.join(" and ")}` });
}
