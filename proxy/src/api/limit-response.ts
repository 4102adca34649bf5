/**
 * `headers` and `denied` of `spec.traffic.rateLimit`: what responses show of the limits of a policy. The parser accepts
 * and rejects the same values as the CRD.
 */
import * as z from "zod";
import { leaf, list, publishRules, strictObject, text } from "./schema.ts";

/** Maximum characters of the body, of a header's name and of its value, and maximum number of headers. */
const [maxBodyLength, maxNameLength, maxValueLength, maxHeaders] = [2_048, 64, 512, 16];

/** `headers`: the families of a policy. */
export const headerFamilies = list(z.enum(["XRateLimit", "Ietf", "OpenAI"]), { min: 0, max: 3 })
  .superRefine((families, context) => {
    families.forEach((family, index) => {
      if (families.indexOf(family) < index) {
        context.addIssue({ code: "custom", path: [index], message: `${family} is named twice` });
      }
    });
  })
  .meta(publishRules({ rule: "self.all(a, self.exists_one(b, a == b))", message: "a family is named twice" }));

/**
 * Statuses that require other fields (401, 405, 407, 426), and after which clients send the request again at once
 * (408, 421, 425).
 */
const unusableStatuses = [401, 405, 407, 408, 421, 425, 426] as const;

const status = leaf<number>(
  `an integer from 400 to 599, except ${unusableStatuses.join(", ")}`,
  (value) =>
    typeof value === "number" &&
    Number.isInteger(value) &&
    value >= 400 &&
    value <= 599 &&
    !unusableStatuses.some((unusable) => unusable === value),
  {
    type: "integer",
    minimum: 400,
    maximum: 599,
    ...publishRules({
      rule: `!(self in [${unusableStatuses.join(", ")}])`,
      message: `${unusableStatuses.join(", ")} are not accepted`,
    }),
  },
);

/** Fields that the gateway writes: of the message framing, of the connection, of the request and of its limits. */
const ownNames = [
  ...["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te", "trailer"],
  ...["content-length", "content-encoding", "host", "date", "x-request-id", "retry-after", "x-envoy-ratelimited"],
] as const;
/** The beginnings of such names: fields of limits, of CORS and of gRPC. */
const ownPrefixes = ["ratelimit", "x-ratelimit-", "access-control-", "grpc-"] as const;
/** In gRPC, fields with this end have a binary value in base64. */
const binarySuffix = "-bin";

const token = /^[A-Za-z0-9!#$%&'*+\-.^_`|~]+$/;

/** The API server evaluates the rule even where the pattern does not match. */
const nameRule = [
  `!(self.lowerAscii() in [${ownNames.map((name) => `'${name}'`).join(", ")}])`,
  ...ownPrefixes.map((prefix) => `!self.lowerAscii().startsWith('${prefix}')`),
  `!self.lowerAscii().endsWith('${binarySuffix}')`,
].join(" && ");

const acceptedNames = `none that the gateway writes itself (${ownNames.join(", ")}, ${ownPrefixes.map((prefix) => `${prefix}…`).join(", ")}), and none that ends with ${binarySuffix}`;

const fieldName = leaf<string>(
  `a header name of 1 to ${maxNameLength} characters, ${acceptedNames}`,
  (value) => typeof value === "string" && value.length <= maxNameLength && token.test(value) && !isOwnName(value),
  {
    type: "string",
    minLength: 1,
    maxLength: maxNameLength,
    pattern: token.source,
    ...publishRules({ rule: nameRule, message: `accepted is ${acceptedNames}` }),
  },
);

function isOwnName(name: string): boolean {
  const lower = name.toLowerCase();
  if (lower.endsWith(binarySuffix) || ownNames.some((own) => own === lower)) return true;
  return ownPrefixes.some((prefix) => lower.startsWith(prefix));
}

const field = strictObject({
  name: fieldName.describe(
    "Name of the header, in any case. Headers of the message framing, of CORS, of gRPC and of limits are not accepted.",
  ),
  value: text(`a header value of 1 to ${maxValueLength} printable ASCII characters, without spaces at its ends`, {
    max: maxValueLength,
    pattern: /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/,
  }).describe("Value of the header."),
});

const fields = list(field, { max: maxHeaders })
  .superRefine((found, context) => {
    const seen = new Set<string>();
    found.forEach(({ name }, index) => {
      const lower = name.toLowerCase();
      if (seen.has(lower)) {
        context.addIssue({ code: "custom", path: [index, "name"], message: `header ${lower} is named twice` });
      }
      seen.add(lower);
    });
  })
  .meta(
    publishRules({
      rule: "self.all(a, self.exists_one(b, a.name.lowerAscii() == b.name.lowerAscii()))",
      message: "a header is named twice",
    }),
  );

const contentTypeMessage = "content-type is accepted together with format Text only";

/** `denied`: the response to requests that the policy denies. */
export const deniedResponse = strictObject({
  format: z
    .enum(["Text", "Problem", "Provider"])
    .default("Text")
    .describe(
      "Form of the body. Text: plain text. Problem: `application/problem+json` (RFC 9457) of the type quota-exceeded, with the names of the exhausted entries. Provider: the error object of the API that the client uses (OpenAI, Anthropic, Gemini, Bedrock), by the path and the Backend, or a problem if that is unknown. gRPC calls always get status RESOURCE_EXHAUSTED without a body.",
    ),
  status: status
    .optional()
    .describe(
      "HTTP status. Defaults to 429. Statuses that require other headers or an immediate retry are not accepted.",
    ),
  body: text(`a text of at most ${maxBodyLength} characters`, { min: 0, max: maxBodyLength })
    .optional()
    .describe(
      "Text of the response: the body of Text, the detail of Problem, the message of Provider and of gRPC. Replaces the body of a rate limit service. Defaults to a text of the gateway.",
    ),
  headers: fields
    .optional()
    .describe("Further headers of the response. They replace headers of the format and of a rate limit service."),
})
  .superRefine(({ format, headers = [] }, context) => {
    if (format === "Text") return;
    const at = headers.findIndex(({ name }) => name.toLowerCase() === "content-type");
    if (at !== -1) context.addIssue({ code: "custom", path: ["headers", at, "name"], message: contentTypeMessage });
  })
  .meta(
    publishRules({
      rule: "!has(self.headers) || self.format == 'Text' || !self.headers.exists(h, h.name.lowerAscii() == 'content-type')",
      message: contentTypeMessage,
    }),
  );
