/**
 * Backend (gatewayproxy.dev/v1alpha1): a target other than a Service. `static` is one address. `ai` is an LLM provider,
 * with defaults for address, path and credentials.
 */
import { isIP, SocketAddress } from "node:net";
import * as z from "zod";
import { namespacedMetadata, strictResource } from "./metadata.ts";
import { proxyGroup } from "./names.ts";
import { usageChunk, usageChunkMeaning } from "./usage-chunk.ts";
import {
  type Immutable,
  leaf,
  objectName,
  portNumber,
  preciseHostname,
  publishRules,
  strictObject,
  text,
} from "./schema.ts";

const hostPattern = /^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$/;

const host = leaf<string>(
  "a host name or an IP address",
  (value) => {
    if (typeof value !== "string" || value.length > 253) return false;
    // A name whose last label is a number is a valid URL host only as an IPv4 address (WHATWG URL, "ends in a number").
    return (hostPattern.test(value) && URL.canParse(`http://${value}/`)) || isPlainIPv6(value);
  },
  {
    type: "string",
    minLength: 1,
    maxLength: 253,
    ...publishRules({
      rule: `self.matches('${hostPattern.source}') || isIP(self)`,
      message: "accepted is a host name or an IP address",
    }),
  },
);

/** Accepts what CEL's isIP accepts: no zone, and no IPv4-mapped address. */
function isPlainIPv6(text: string): boolean {
  return (
    isIP(text) === 6 &&
    !text.includes("%") &&
    !/^::ffff:/i.test(new SocketAddress({ address: text, family: "ipv6" }).address)
  );
}

const secretRef = strictObject({ name: objectName.describe("Name of the Secret.") });

const tls = strictObject({
  hostname: preciseHostname
    .optional()
    .describe("Server name to send (SNI) and to verify in the certificate. Defaults to the host of the Backend."),
  caRef: secretRef
    .optional()
    .describe(
      "A Secret in the namespace of the Backend whose key `ca.crt` holds the certificate authorities to trust, in PEM. No others are trusted. Defaults to the well-known public authorities.",
    ),
  clientCertificateRef: secretRef
    .optional()
    .describe(
      "A Secret of type kubernetes.io/tls in the namespace of the Backend. Its certificate is presented to a server that requests a client certificate.",
    ),
});

const staticBackend = strictObject({
  host: host.describe("Host name or IP address."),
  port: portNumber.describe("TCP port."),
  tls: tls.optional().describe("Connects with TLS. Without it, the connection is plain text."),
});

const provider = strictObject({
  model: text("a model's name of at most 256 characters", { max: 256 })
    .optional()
    .describe(
      "Replaces the model that the client requested. A request whose body does not allow that is rejected with 400.",
    ),
});

const auth = exactlyOneOf(
  strictObject({
    secretRef: secretRef
      .optional()
      .describe(
        "A Secret in the namespace of the Backend whose key `apiKey` holds the API key to send to the provider.",
      ),
    passthrough: strictObject({}).optional().describe("Forwards the credentials of the client to the provider."),
  }),
  ["secretRef", "passthrough"],
);

const aiBackend = strictObject({
  provider: exactlyOneOf(
    strictObject({
      openai: provider.optional().describe("OpenAI, or a server that implements its API."),
      anthropic: provider.optional().describe("Anthropic, or a server that implements its API."),
    }),
    ["openai", "anthropic"],
  ).describe("API dialect of the provider. Exactly one of openai and anthropic must be set."),
  host: host.optional().describe("Host name or IP address. Defaults to the public API of the provider."),
  port: portNumber.optional().describe("TCP port. Defaults to 443."),
  path: text("an absolute path such as /openai, without query", {
    max: 1024,
    pattern: /^\/[-A-Za-z0-9/._~!$&'()*+,;=:@%]*$/,
  })
    .optional()
    .describe("Prefix that is added to the path of each request, such as /openai."),
  auth: auth.optional().describe("Credentials for the provider. Defaults to passthrough."),
  upgrades: z
    .enum(["Refuse", "Allow"])
    .optional()
    .describe(
      "Whether clients may switch protocols, for example to WebSocket. The gateway neither counts nor edits the data after the switch, so token limits and `model` do not apply to it. Refuse rejects such requests with 403. Defaults to Refuse.",
    ),
  deferredWork: z
    .enum(["Refuse", "Allow"])
    .optional()
    .describe(
      "Whether clients may request deferred work where a token limit or `model` applies, although no response reports its tokens: batches, jobs, assistant runs, background responses, evaluations, fine-tuning, videos, and sessions that bypass the gateway, such as those of OpenAI realtime client secrets. Defaults to Refuse.",
    ),
  otherEndpoints: z
    .enum(["Refuse", "Allow"])
    .optional()
    .describe(
      "Whether paths outside the known model APIs are served where a token limit or `model` applies. With Allow, a response without usage is charged by an estimate, and `model` is set in the request body. Defaults to Refuse.",
    ),
  usageChunk: usageChunk
    .optional()
    .describe(
      `${usageChunkMeaning} A ProxyPolicy on the route that sets this field takes precedence. Defaults to Merge.`,
    ),
  tls: tls
    .optional()
    .describe(
      "TLS settings. Defaults to TLS with default settings, or to plain text where host and a port other than 443 are set.",
    ),
});

/** Schema of a Backend. */
export const backendSchema = strictResource({
  apiVersions: [`${proxyGroup}/v1alpha1`],
  kind: "Backend",
  metadata: namespacedMetadata,
  spec: exactlyOneOf(
    strictObject({
      static: staticBackend.optional().describe("One address. Exactly one of static and ai must be set."),
      ai: aiBackend.optional().describe("An LLM provider. Exactly one of static and ai must be set."),
    }),
    ["static", "ai"],
  ).describe("Address and protocol of the backend."),
});

/** A parsed Backend. */
export type Backend = Immutable<z.output<typeof backendSchema>>;
/** `spec.static` */
export type StaticBackend = Immutable<z.output<typeof staticBackend>>;
/** `tls` of a static or ai Backend. */
export type BackendTls = Immutable<z.output<typeof tls>>;
/** `spec.ai` */
export type AiBackend = Immutable<z.output<typeof aiBackend>>;

/** Adds an issue unless exactly one of the two fields is set. */
function exactlyOneOf<Shape extends z.core.$ZodLooseShape>(
  schema: z.ZodObject<Shape, z.core.$strict>,
  [first, second]: readonly [string, string],
) {
  const accepted = `accepted is exactly one of ${first} and ${second}`;
  return schema
    .superRefine((value: Readonly<Record<string, unknown>>, context) => {
      const isFirst = value[first] !== undefined;
      const isSecond = value[second] !== undefined;
      if (isFirst !== isSecond) return;
      context.addIssue({ code: "custom", message: `found ${isFirst ? "both" : "neither"}, ${accepted}` });
    })
    .meta(publishRules({ rule: `has(self.${first}) != has(self.${second})`, message: accepted }));
}
