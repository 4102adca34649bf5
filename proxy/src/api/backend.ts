/**
 * Backend (gatewayproxy.dev/v1alpha1): a target that is not a Service. `static` is one address; `ai` is an LLM provider,
 * whose address, path and credentials have defaults.
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
    // A name that ends in a number is no URL host unless it is an IPv4 address (WHATWG URL, "ends in a number").
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

/** As CEL's isIP has it: neither a zone nor an IPv4 address in disguise. */
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
    .describe("Server name to send and to verify. Absent means the host of the Backend."),
  caRef: secretRef
    .optional()
    .describe(
      "A Secret of the Backend's own namespace: the authorities in its key `ca.crt` are trusted, and no others. Absent means the well-known ones.",
    ),
  clientCertificateRef: secretRef
    .optional()
    .describe(
      "A Secret of the Backend's own namespace, of type kubernetes.io/tls: its certificate is shown to a server that asks for one.",
    ),
});

const staticBackend = strictObject({
  host: host.describe("Host name or IP address."),
  port: portNumber.describe("TCP port."),
  tls: tls.optional().describe("Connect with TLS. Absent means plain text."),
});

const provider = strictObject({
  model: text("a model's name of at most 256 characters", { max: 256 })
    .optional()
    .describe(
      "Replaces the model that the client asked for. A request with a body in which it cannot be set is refused with 400.",
    ),
});

const auth = exactlyOneOf(
  strictObject({
    secretRef: secretRef
      .optional()
      .describe("A Secret of the Backend's own namespace: its key `apiKey` is sent to the provider."),
    passthrough: strictObject({}).optional().describe("The client's own credentials go to the provider."),
  }),
  ["secretRef", "passthrough"],
);

const aiBackend = strictObject({
  provider: exactlyOneOf(
    strictObject({
      openai: provider.optional().describe("OpenAI, or a server that speaks its API."),
      anthropic: provider.optional().describe("Anthropic, or a server that speaks its API."),
    }),
    ["openai", "anthropic"],
  ).describe("Whose API is spoken. Exactly one is set."),
  host: host.optional().describe("Host name or IP address. Absent means the provider's own."),
  port: portNumber.optional().describe("TCP port. Absent means 443."),
  path: text("an absolute path such as /openai, without query", {
    max: 1024,
    pattern: /^\/[-A-Za-z0-9/._~!$&'()*+,;=:@%]*$/,
  })
    .optional()
    .describe("Put before the path of each request, such as /openai."),
  auth: auth.optional().describe("How the provider knows us. Absent means passthrough."),
  upgrades: z
    .enum(["Refuse", "Allow"])
    .optional()
    .describe(
      "Whether clients may switch protocols, as for WebSocket. What passes after the switch is neither counted nor edited: token limits and `model` do not apply to it. Absent means Refuse.",
    ),
  deferredWork: z
    .enum(["Refuse", "Allow"])
    .optional()
    .describe(
      "Whether clients may ask for work whose tokens no answer tells, under a token limit or a `model`: batches, jobs, runs of assistants, responses in the background, evaluations, fine-tuning, videos, and sessions that go on without the gateway, such as OpenAI's realtime client secrets. Absent means Refuse.",
    ),
  otherEndpoints: z
    .enum(["Refuse", "Allow"])
    .optional()
    .describe(
      "Whether paths are served, under a token limit or a `model`, that are none of a known API of models. Allow: an answer without a usage is charged an estimate, and a `model` is set in the body. Absent means Refuse.",
    ),
  usageChunk: usageChunk
    .optional()
    .describe(`${usageChunkMeaning} A policy of the route that has this field decides before. Absent means Merge.`),
  tls: tls
    .optional()
    .describe(
      "Settings of TLS. Absent means TLS with the defaults, or plain text where host and a port other than 443 are set.",
    ),
});

export const backendSchema = strictResource({
  apiVersions: [`${proxyGroup}/v1alpha1`],
  kind: "Backend",
  metadata: namespacedMetadata,
  spec: exactlyOneOf(
    strictObject({
      static: staticBackend.optional().describe("One address. Exactly one of static and ai is set."),
      ai: aiBackend.optional().describe("An LLM provider."),
    }),
    ["static", "ai"],
  ).describe("Where the backend is."),
});

export type Backend = Immutable<z.output<typeof backendSchema>>;
export type StaticBackend = Immutable<z.output<typeof staticBackend>>;
export type BackendTls = Immutable<z.output<typeof tls>>;
export type AiBackend = Immutable<z.output<typeof aiBackend>>;

/** The map with an issue unless exactly one of the two fields is set. */
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
