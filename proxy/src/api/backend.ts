/**
 * Backend (gatewayproxy.dev/v1alpha1): a target other than a Service. `static` is one address. `ai` is an LLM provider,
 * with defaults for address, path and credentials, or a list of such Backends that replace each other.
 */
import { isIP, SocketAddress } from "node:net";
import * as z from "zod";
import { namespacedMetadata, strictResource } from "./metadata.ts";
import { proxyGroup } from "./names.ts";
import { usageChunk, usageChunkMeaning } from "./usage-chunk.ts";
import { duration, durationMs, durationPattern } from "./duration.ts";
import {
  type Immutable,
  integer,
  leaf,
  list,
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

const modelName = text("a model's name of at most 256 characters", { max: 256 });

const provider = strictObject({
  model: modelName
    .optional()
    .describe(
      "Replaces the model that the client requested. A request whose body does not allow that is rejected with 400.",
    ),
});

const azureProvider = strictObject({
  model: modelName
    .optional()
    .describe(
      "Replaces the deployment that the client requested, in the path and in the body. A request that does not allow that is rejected with 400.",
    ),
  apiVersion: text("a version such as 2024-10-21 or preview", { max: 64, pattern: /^[A-Za-z0-9][-A-Za-z0-9.]*$/ })
    .optional()
    .describe("Value of the query parameter `api-version` in requests that have none."),
  authentication: z
    .enum(["ApiKey", "Bearer"])
    .optional()
    .describe(
      "How `apiKey` of the Secret is sent. ApiKey sends it as the header `api-key`. Bearer sends it as a bearer token, such as one of Microsoft Entra ID. Defaults to ApiKey.",
    ),
});

const modelInPathMeaning =
  "Replaces the model that the client requested, in the path or in the body. A request that does not allow that is rejected with 400.";

const geminiProvider = strictObject({ model: modelName.optional().describe(modelInPathMeaning) });

const bedrockProvider = strictObject({
  model: modelName.optional().describe(`A model, an inference profile, or its ARN. ${modelInPathMeaning}`),
  region: text("an AWS region such as eu-west-1", {
    max: 64,
    pattern: /^[a-z]{2,8}(-[a-z]{1,16}){1,4}-[0-9]{1,2}$/,
  }).describe("AWS region. It is a part of the default host, and of the signature."),
});

/** The providers of `spec.ai.provider`, in the order of messages. */
const providerNames = ["openai", "anthropic", "azure", "gemini", "bedrock", "openaiCompatible"] as const;
/** The providers without a public host. */
const providersWithHost = ["azure", "openaiCompatible"] as const;

const auth = exactlyOneOf(
  strictObject({
    secretRef: secretRef
      .optional()
      .describe(
        "A Secret in the namespace of the Backend whose key `apiKey` holds the API key to send to the provider. For bedrock, the keys `accessKeyId`, `secretAccessKey` and optionally `sessionToken` may hold credentials that sign each request (Signature Version 4).",
      ),
    passthrough: strictObject({}).optional().describe("Forwards the credentials of the client to the provider."),
  }),
  ["secretRef", "passthrough"],
);

/** The most models of one Backend, which bounds the list of models that a client gets. */
const maxModels = 128;

const offeredModel = strictObject({
  name: modelName.describe("Name by which clients request the model."),
  as: modelName
    .optional()
    .describe("Name that the provider gets in place of `name`, such as a version or a deployment. Defaults to `name`."),
});

const models = list(offeredModel, { min: 1, max: maxModels })
  .superRefine((offered, context) => {
    const seen = new Set<string>();
    offered.forEach(({ name }, index) => {
      if (seen.has(name)) {
        context.addIssue({ code: "custom", path: [index, "name"], message: `name ${name} is used twice` });
      }
      seen.add(name);
    });
  })
  .meta(
    publishRules({
      rule: "self.all(a, self.exists_one(b, a.name == b.name))",
      message: "a name is used twice",
    }),
  );

/** Maximum number of providers of a Backend, so that a request has a bounded number of attempts. */
export const maxProviders = 16;

const providerEntry = strictObject({
  backendRef: strictObject({ name: objectName.describe("Name of a Backend in the same namespace.") }).describe(
    "A Backend with `ai.provider`: its address, credentials, model and settings apply to the requests that it gets.",
  ),
  priority: integer(0, 15)
    .optional()
    .describe(
      "Providers with a lower number are tried first. Those with the same number share requests. Defaults to 0.",
    ),
  weight: integer(1, 1_000_000)
    .optional()
    .describe("Share of the requests among the available providers of the same priority. Defaults to 1."),
});

const providersAccepted = `accepted are 1 to ${maxProviders} providers, each Backend once`;

const providerList = list(providerEntry, { min: 1, max: maxProviders })
  .superRefine((entries, context) => {
    entries.forEach(({ backendRef: { name } }, index) => {
      if (entries.findIndex((other) => other.backendRef.name === name) === index) return;
      const message = `found Backend ${name} a second time, ${providersAccepted}`;
      context.addIssue({ code: "custom", path: [index, "backendRef", "name"], message });
    });
  })
  .meta(
    publishRules({
      rule: "self.all(one, self.exists_one(other, other.backendRef.name == one.backendRef.name))",
      message: providersAccepted,
    }),
  );

const maxAttemptTimeoutMs = 3_600_000;

const attemptTimeout = leaf<string>(
  "a duration from 1ms to 1h, such as 10s",
  (value) => {
    const parsed = duration.safeParse(value);
    if (!parsed.success) return false;
    const ms = durationMs(parsed.data);
    return ms >= 1 && ms <= maxAttemptTimeoutMs;
  },
  {
    type: "string",
    minLength: 1,
    maxLength: 64,
    pattern: durationPattern.source,
    ...publishRules({
      // The API server evaluates the rule even where the pattern does not match.
      rule: `!self.matches('${durationPattern.source}') || (duration(self) >= duration('1ms') && duration(self) <= duration('1h'))`,
      message: "accepted is a duration from 1ms to 1h",
    }),
  },
);

const failover = strictObject({
  firstByteTimeout: attemptTimeout
    .optional()
    .describe(
      "Maximum time from the start of an attempt to the head of its response. Then the request moves to the next provider. Without a next provider it continues to wait. Defaults to no timeout.",
    ),
  streamIdleTimeout: attemptTimeout
    .optional()
    .describe(
      "Maximum time without data in a stream before its first event. Then the request moves to the next provider. Without a next provider it continues to wait. Defaults to no timeout.",
    ),
});

const price = text('a price of at most 6 digits before and after the point, as text such as "0.25"', {
  max: 13,
  pattern: /^(0|[1-9][0-9]{0,5})(\.[0-9]{1,6})?$/,
});

const modelPrice = strictObject({
  input: price.describe("Price of a million input tokens."),
  cachedInput: price
    .optional()
    .describe("Price of a million input tokens that were read from a cache of the provider. Defaults to `input`."),
  cacheCreation: price
    .optional()
    .describe("Price of a million input tokens that were written to a cache of the provider. Defaults to `input`."),
  output: price.describe("Price of a million output tokens, reasoning included."),
});

/** The most models with a price of one Backend. */
const maxPrices = 128;

const pricesAccepted = `accepted are 1 to ${maxPrices} models, with names of 1 to 256 characters`;

const prices = z
  .record(z.string(), modelPrice)
  .superRefine((priced, context) => {
    const names = Object.keys(priced);
    const tooLong = names.find((name) => !modelName.safeParse(name).success);
    if (names.length === 0 || names.length > maxPrices) {
      context.addIssue({ code: "custom", message: `found ${names.length} models, ${pricesAccepted}` });
    } else if (tooLong !== undefined) {
      const message = `found a name of ${tooLong.length} characters, ${pricesAccepted}`;
      context.addIssue({ code: "custom", path: [tooLong], message });
    }
  })
  .meta({
    minProperties: 1,
    maxProperties: maxPrices,
    ...publishRules({
      rule: "self.all(name, size(name) >= 1 && size(name) <= 256)",
      message: pricesAccepted,
    }),
  });

const aiFields = strictObject({
  providers: providerList
    .optional()
    .describe(
      "Backends that replace each other: a request goes to an available one of the lowest priority, and moves to the next one if it fails before its response has begun. All must have the same API. Exactly one of provider and providers must be set; only `failover` may be set beside providers.",
    ),
  failover: failover.optional().describe("When a request moves to the next one of `providers`."),
  provider: exactlyOneOf(
    strictObject({
      openai: provider.optional().describe("OpenAI, or a server that implements its API."),
      anthropic: provider.optional().describe("Anthropic, or a server that implements its API."),
      azure: azureProvider.optional().describe("Azure OpenAI. `host` must be set, such as NAME.openai.azure.com."),
      gemini: geminiProvider
        .optional()
        .describe("Gemini, by its own API or by the one that is compatible with OpenAI."),
      bedrock: bedrockProvider.optional().describe("Amazon Bedrock: Converse, InvokeModel and their streams."),
      openaiCompatible: provider
        .optional()
        .describe(
          "A server that implements the API of OpenAI, such as vLLM, Ollama, Mistral or Groq. `host` must be set.",
        ),
    }),
    providerNames,
  )
    .optional()
    .describe("API dialect of the provider. Exactly one must be set."),
  models: models
    .optional()
    .describe(
      "Models that clients may request, with distinct names. A rule sends a request to a backend that lists its model, or else to one without a list. A model that no backend of the rule offers gets 404 in the form of the provider, and `GET /v1/models` lists the models of the rule. Must not be set beside `model` of the provider. Defaults to any model.",
    ),
  host: host
    .optional()
    .describe(
      "Host name or IP address. Defaults to the public API of the provider. Required for azure and openaiCompatible, which have none.",
    ),
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
      "Whether clients may switch protocols, for example to WebSocket. The gateway does not edit the data after the switch, so `model` and `models` apply to the query of the request only. Under a token limit it counts the responses of realtime sessions over WebSocket, and nothing else. Refuse rejects such requests with 403. Defaults to Refuse.",
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
  prices: prices
    .optional()
    .describe(
      "Prices by model, for limits by spend, for `llm.cost` of expressions, and for the cost in the access log and metrics. A model has the price of its name for the provider, or else of its name in `models`. Prices are decimal numbers as text.",
    ),
  currency: text("a currency code of three upper case letters such as USD (ISO 4217)", {
    max: 3,
    pattern: /^[A-Z]{3}$/,
  })
    .optional()
    .describe("Currency of the prices, which the access log and metrics show. Amounts are not converted."),
  tls: tls
    .optional()
    .describe(
      "TLS settings. Defaults to TLS with default settings, or to plain text where host and a port other than 443 are set.",
    ),
});

const modelsAccepted = "accepted is either models, or the model of the provider, which replaces any other";
const hostAccepted = `accepted is a host for ${providersWithHost.join(" and ")}, which have no public one`;

/** The fields that belong to a single provider. */
const fieldsOfProvider = [
  ...(["models", "host", "port", "path", "auth", "upgrades", "deferredWork", "otherEndpoints"] as const),
  ...(["usageChunk", "prices", "currency", "tls"] as const),
] as const;

const besideProviders = "accepted beside providers is failover; other fields belong to the Backends of the providers";
const failoverAccepted = "accepted is failover beside providers";

const aiBackend = exactlyOneOf(aiFields, ["provider", "providers"])
  .superRefine((spec: Readonly<Record<string, unknown>>, context) => {
    const { provider: single, host: found, providers, failover: policy } = spec;
    if (providers === undefined && policy !== undefined) {
      context.addIssue({ code: "custom", path: ["failover"], message: `found no providers, ${failoverAccepted}` });
    }
    for (const field of providers === undefined ? [] : fieldsOfProvider) {
      if (spec[field] === undefined) continue;
      context.addIssue({ code: "custom", path: [field], message: `found ${field}, ${besideProviders}` });
    }
    if (typeof single !== "object" || single === null) return;
    const prescribing = providerNames.find((name) => prescribesModel(single, name));
    if (prescribing !== undefined && spec["models"] !== undefined) {
      const message = `found provider.${prescribing}.model too, ${modelsAccepted}`;
      context.addIssue({ code: "custom", path: ["models"], message });
    }
    if (found !== undefined) return;
    const provider = providersWithHost.find(
      (name) => (single as Readonly<Record<string, unknown>>)[name] !== undefined,
    );
    if (provider === undefined) return;
    context.addIssue({ code: "custom", path: ["host"], message: `found none, ${hostAccepted}` });
  })
  .meta(
    publishRules(
      {
        rule: "has(self.provider) != has(self.providers)",
        message: "accepted is exactly one of provider and providers",
      },
      {
        rule: `has(self.host) || !has(self.provider) || !(${providersWithHost.map((name) => `has(self.provider.${name})`).join(" || ")})`,
        message: hostAccepted,
      },
      {
        rule: `!has(self.models) || !has(self.provider) || !(${providerNames.map((name) => `(has(self.provider.${name}) && has(self.provider.${name}.model))`).join(" || ")})`,
        message: modelsAccepted,
      },
      { rule: "has(self.providers) || !has(self.failover)", message: failoverAccepted },
      {
        rule: `!has(self.providers) || !(${fieldsOfProvider.map((name) => `has(self.${name})`).join(" || ")})`,
        message: besideProviders,
      },
    ),
  );

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
/** An item of `spec.ai.prices`. */
export type ModelPrice = Immutable<z.output<typeof modelPrice>>;
/** `spec.ai` */
export type AiBackend = Immutable<z.output<typeof aiFields>>;
/** `spec.ai.failover` */
export type FailoverSpec = Immutable<z.output<typeof failover>>;

/**
 * Whether the settings of the provider set its `model`. Other settings have been checked, or have issues of their own.
 */
function prescribesModel(providers: object, name: string): boolean {
  const settings: unknown = (providers as Readonly<Record<string, unknown>>)[name];
  return typeof settings === "object" && settings !== null && "model" in settings && settings.model !== undefined;
}

/** Adds an issue unless exactly one of the fields is set. */
function exactlyOneOf<Shape extends z.core.$ZodLooseShape>(
  schema: z.ZodObject<Shape, z.core.$strict>,
  names: readonly string[],
) {
  const accepted = `accepted is exactly one of ${listOf(names)}`;
  const isPair = names.length === 2;
  const has = names.map((name) => `has(self.${name})`);
  const rule = isPair ? has.join(" != ") : `[${has.join(", ")}].filter(isSet, isSet).size() == 1`;
  return schema
    .superRefine((value: Readonly<Record<string, unknown>>, context) => {
      const found = names.filter((name) => value[name] !== undefined);
      if (found.length === 1) return;
      const several = isPair ? "both" : listOf(found);
      const none = isPair ? "neither" : "none";
      context.addIssue({ code: "custom", message: `found ${found.length === 0 ? none : several}, ${accepted}` });
    })
    .meta(publishRules({ rule, message: accepted }));
}

function listOf(names: readonly string[]): string {
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1) ?? ""}`;
}
