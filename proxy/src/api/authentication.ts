/**
 * `spec.traffic.authentication` of a ProxyPolicy: how clients prove who they are, by JSON Web Tokens (RFC 7519) and by
 * API keys in Secrets.
 */
import { isIP } from "node:net";
import * as z from "zod";
import { headerName, leaf, list, objectName, publishRules, strictObject, text } from "./schema.ts";

/** Maximum number of issuers, of header fields, and of Secrets that a policy names. */
const [maxIssuers, maxFields, maxSecretRefs] = [16, 8, 256];

/** Maximum length of a key set in a manifest. Sets of identity providers have some 4 KiB. */
const maxInlineLength = 65_536;

const secureUri = /^https:\/\/[^\s/?#@]+(?:[/?][^\s#]*)?$/;
/** Plain text is accepted to the machine itself, where it passes no network. */
const loopbackUri = /^http:\/\/(?:127(?:\.[0-9]{1,3}){3}|\[::1\]|localhost)(?::[0-9]{1,5})?(?:[/?][^\s#]*)?$/;

const jwksUri = leaf<string>(
  "an https URL such as https://login.example.com/jwks (http only for loopback addresses)",
  (value) => typeof value === "string" && value.length <= 2_048 && isKeySetUri(value),
  {
    type: "string",
    minLength: 1,
    maxLength: 2_048,
    pattern: `${secureUri.source}|${loopbackUri.source}`,
    ...publishRules({
      // The API server evaluates the rule even where the pattern does not match.
      rule: "isURL(self)",
      message: "accepted is an https URL",
    }),
  },
);

function isKeySetUri(value: string): boolean {
  if (!secureUri.test(value) && !loopbackUri.test(value)) return false;
  if (!URL.canParse(value)) return false;
  const { hostname } = new URL(value);
  return hostname !== "" && (isIP(hostname) !== 0 || hostname.length <= 255);
}

const jwks = strictObject({
  uri: jwksUri
    .optional()
    .describe(
      "URL of the key set. The proxy reads it in the background, again when it is older than 5 minutes, and when a token names an unknown key. Redirects are not followed. Plain http is accepted for loopback addresses only.",
    ),
  configMapRef: strictObject({ name: objectName.describe("Name of the ConfigMap.") })
    .optional()
    .describe("ConfigMap in the namespace of the policy, with the key set at `jwks`, or as its only value."),
  inline: text("a JSON Web Key Set, as text", { max: maxInlineLength })
    .optional()
    .describe('The key set itself: `{"keys": […]}`.'),
})
  .superRefine(({ uri, configMapRef, inline }, context) => {
    const found = [uri, configMapRef, inline].filter((each) => each !== undefined).length;
    if (found === 1) return;
    const message = `found ${found} of them, accepted is exactly one of uri, configMapRef and inline`;
    context.addIssue({ code: "custom", message });
  })
  .meta(
    publishRules({
      rule: "[has(self.uri), has(self.configMapRef), has(self.inline)].exists_one(each, each)",
      message: "accepted is exactly one of uri, configMapRef and inline",
    }),
  );

const issuer = strictObject({
  issuer: text("the issuer as in the claim iss, such as https://login.example.com", { max: 2_048 }).describe(
    "Issuer of the tokens. The claim `iss` must be equal to it.",
  ),
  audiences: list(text("an audience of 1 to 256 characters", { max: 256 }), { min: 1, max: 16 })
    .optional()
    .describe(
      "Audiences of which the claim `aud` must have one. Without them, tokens that the issuer made for other services are accepted too.",
    ),
  jwks: jwks.describe("Public keys that sign the tokens. Exactly one of uri, configMapRef and inline must be set."),
});

const tokenSource = strictObject({
  header: headerName.describe("Name of the header, in any case."),
  prefix: text("a prefix of 1 to 64 printable characters, such as 'Bearer '", { max: 64, pattern: /^[\x20-\x7e]+$/ })
    .optional()
    .describe("Text before the key in the value. A value without it holds no key."),
});

/** The fields that hold an API key where a policy names none. */
const defaultFields: readonly z.output<typeof tokenSource>[] = [
  { header: "x-api-key" },
  { header: "authorization", prefix: "Bearer " },
];

const labelKey = /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const maxLabels = 8;

/** Whether a text is the key of a label. The API server cannot check keys of `matchLabels` within its cost budget. */
export function isLabelKey(key: string): boolean {
  return key.length <= 317 && labelKey.test(key);
}

const matchLabels = leaf<Readonly<Record<string, string>>>(
  `1 to ${maxLabels} labels such as {tier: customers}`,
  (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    const labels: [string, unknown][] = Object.entries(value);
    const isValue = ([, each]: [string, unknown]): boolean => typeof each === "string" && labelValue.test(each);
    return labels.length >= 1 && labels.length <= maxLabels && labels.every(isValue);
  },
).meta({
  type: "object",
  minProperties: 1,
  maxProperties: maxLabels,
  additionalProperties: { type: "string", maxLength: 63, pattern: labelValue.source },
});

const secretSelector = strictObject({
  matchLabels: matchLabels.describe("Labels that a Secret must have, all of them."),
});

const apiKeys = strictObject({
  from: list(tokenSource, { min: 1, max: maxFields })
    .default([...defaultFields])
    .describe(
      "Header fields that may hold the key; the first that holds a known one counts. Defaults to x-api-key, and to authorization with the prefix `Bearer `.",
    ),
  secretRefs: list(strictObject({ name: objectName.describe("Name of the Secret.") }), { min: 1, max: maxSecretRefs })
    .optional()
    .describe(
      "Secrets with keys, in the namespace of the policy. A key is the value of `apiKey`, or of a name such as `apiKey-2026`, so that a Secret can hold the old and the new key during a rotation.",
    ),
  secretSelector: secretSelector
    .optional()
    .describe("Selects Secrets with keys in the namespace of the policy, in addition to secretRefs."),
})
  .refine(({ secretRefs, secretSelector: selector }) => secretRefs !== undefined || selector !== undefined, {
    error: "found neither, required is secretRefs or secretSelector",
  })
  .meta(
    publishRules({
      rule: "has(self.secretRefs) || has(self.secretSelector)",
      message: "required is secretRefs or secretSelector",
    }),
  );

/** Schema of `spec.traffic.authentication`. */
export const authentication = strictObject({
  mode: z
    .enum(["Required", "Optional"])
    .default("Required")
    .describe(
      "Required responds with 401 to requests without a valid credential. Optional serves them without an identity.",
    ),
  jwt: list(issuer, { min: 1, max: maxIssuers })
    .optional()
    .describe("Issuers of JSON Web Tokens, in `Authorization: Bearer`. Any of them may accept the token."),
  apiKeys: apiKeys.optional().describe("API keys in Secrets."),
  forward: z
    .enum(["Keep", "Remove"])
    .default("Keep")
    .describe("Whether the credentials that the policy reads are forwarded to the backend."),
})
  .refine(({ jwt, apiKeys: keys }) => jwt !== undefined || keys !== undefined, {
    error: "found neither, required is jwt or apiKeys",
  })
  .meta(publishRules({ rule: "has(self.jwt) || has(self.apiKeys)", message: "required is jwt or apiKeys" }));

/** A parsed `spec.traffic.authentication`. */
export type AuthenticationSpec = z.output<typeof authentication>;
