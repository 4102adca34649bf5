/**
 * `HTTPRouteFilter` (Gateway API v1.7): changes of a rule or backendRef to its requests and responses. Every filter of
 * the API is parsed; `translate/route/filters` decides which are supported.
 */
import * as z from "zod";
import {
  group,
  headerName,
  type Immutable,
  integer,
  kindName,
  leaf,
  list,
  maxInt32,
  namespaceName,
  portNumber,
  preciseHostname,
  strictObject,
  targetName,
  text,
} from "./schema.ts";

const headerField = strictObject({
  name: headerName,
  value: leaf<string>(
    "a header value of 1 to 4096 characters, without control characters",
    // RFC 9110 §5.5. The CRD does not check it; a line break in a value would split the message.
    (value) => typeof value === "string" && /^[\t\x20-\x7e\x80-\xff]{1,4096}$/.test(value),
  ),
});

/** The CRD compares these names case-sensitively. The translation finds that `A` and `a` are the same header. */
const headerFields = list(headerField, { max: 16 })
  .refine((fields) => new Set(fields.map(({ name }) => name)).size === fields.length, {
    error: "a header is named twice",
  })
  .default([]);

/** `HTTPHeaderFilter` */
export const headerModifier = strictObject({
  set: headerFields,
  add: headerFields,
  remove: list(headerName, { max: 16 }).default([]),
});

/** The CRD does not check the path. One that is invalid in a request line would fail every request of its rule. */
const replacement = text("a path of at most 1024 characters, percent-encoded and without query", {
  min: 0,
  max: 1024,
  pattern: /^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})*$/,
});

const pathModifier = z.discriminatedUnion("type", [
  strictObject({ type: z.literal("ReplaceFullPath"), replaceFullPath: replacement }),
  strictObject({ type: z.literal("ReplacePrefixMatch"), replacePrefixMatch: replacement }),
]);

const urlRewrite = strictObject({
  hostname: preciseHostname.optional(),
  path: pathModifier.optional(),
});

const redirectCodes = [301, 302, 303, 307, 308] as const;

const requestRedirect = strictObject({
  scheme: z.enum(["http", "https"]).optional(),
  hostname: preciseHostname.optional(),
  path: pathModifier.optional(),
  port: portNumber.optional(),
  statusCode: leaf<(typeof redirectCodes)[number]>("301, 302, 303, 307 or 308", (value) =>
    redirectCodes.some((code) => code === value),
  ).default(302),
});

/** `BackendObjectReference`: a backendRef without weight and filters. */
export const backendReference = {
  group: group.default(""),
  kind: kindName.default("Service"),
  name: targetName,
  namespace: namespaceName.optional(),
  port: portNumber.optional(),
};

/** Whether a reference to a Service has a port, as the CRD requires. */
export function namesServicePort(reference: { group: string; kind: string; port?: number | undefined }): boolean {
  return reference.group !== "" || reference.kind !== "Service" || reference.port !== undefined;
}

/** The error for a reference without one. */
export const missingServicePort = { error: "missing, required is the Service's port (1 to 65535)", path: ["port"] };

/** `HTTPRequestMirrorFilter` */
export const requestMirror = strictObject({
  backendRef: strictObject(backendReference).refine(namesServicePort, missingServicePort),
  percent: integer(0, 100).optional(),
  fraction: strictObject({ numerator: integer(0, maxInt32), denominator: integer(1, maxInt32).default(100) })
    .refine(({ numerator, denominator }) => numerator <= denominator, {
      error: "numerator must not be above denominator",
    })
    .optional(),
}).refine(({ percent, fraction }) => percent === undefined || fraction === undefined, {
  error: "percent and fraction must not both be set",
});

/** A list in which `*` means everything and must be the only item. */
function listOrWildcard<Item extends z.ZodType>(item: Item, max: number) {
  return list(item, { max }).refine((items) => items.length <= 1 || !items.some((value) => value === "*"), {
    error: `"*" must be the only item`,
  });
}

const origin = text("an origin such as https://www.example.com, https://*.example.com or *", {
  max: 253,
  pattern: /^(?:\*|https?:\/\/(?:(?:\*\.)?(?:[a-zA-Z0-9-]+\.)*[a-zA-Z0-9-]+|\*)(?::[0-9]{1,5})?)$/,
});

const cors = strictObject({
  allowOrigins: listOrWildcard(origin, 64).optional(),
  allowCredentials: z.boolean().optional(),
  allowMethods: listOrWildcard(
    z.enum(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "*"]),
    9,
  ).optional(),
  allowHeaders: listOrWildcard(headerName, 64).optional(),
  exposeHeaders: list(headerName, { max: 64 }).optional(),
  maxAge: integer(1, maxInt32).default(5),
});

/** `LocalObjectReference` */
export const extensionRef = strictObject({ group, kind: kindName, name: targetName });

const httpRouteFilter = z.discriminatedUnion("type", [
  strictObject({ type: z.literal("RequestHeaderModifier"), requestHeaderModifier: headerModifier }),
  strictObject({ type: z.literal("ResponseHeaderModifier"), responseHeaderModifier: headerModifier }),
  strictObject({ type: z.literal("RequestMirror"), requestMirror }),
  strictObject({ type: z.literal("RequestRedirect"), requestRedirect }),
  strictObject({ type: z.literal("URLRewrite"), urlRewrite }),
  strictObject({ type: z.literal("ExtensionRef"), extensionRef }),
  strictObject({ type: z.literal("CORS"), cors }),
]);

/** Filters that must not be repeated in one rule. */
const singleFilters = ["CORS", "RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite"];

/** `filters` of a rule or backendRef. */
export const httpRouteFilters = list(httpRouteFilter, { max: 16 })
  .superRefine((filters, context) => {
    const seen = new Set<string>();
    filters.forEach(({ type }, index) => {
      const message = repeatError(type, seen);
      if (message !== undefined) context.addIssue({ code: "custom", path: [index, "type"], message });
      seen.add(type);
    });
  })
  .default([]);

function repeatError(type: string, seen: ReadonlySet<string>): string | undefined {
  if (seen.has(type) && singleFilters.includes(type)) return `filter ${type} must not be repeated`;
  const other = type === "URLRewrite" ? "RequestRedirect" : type === "RequestRedirect" ? "URLRewrite" : undefined;
  if (other !== undefined && seen.has(other)) return `filters ${type} and ${other} must not both be set`;
  return undefined;
}

/** A parsed filter. */
export type HttpRouteFilter = Immutable<z.output<typeof httpRouteFilter>>;
/** `requestHeaderModifier`, `responseHeaderModifier` */
export type HeaderModifier = Immutable<z.output<typeof headerModifier>>;
/** `urlRewrite` */
export type UrlRewrite = Immutable<z.output<typeof urlRewrite>>;
/** `requestRedirect` */
export type RequestRedirect = Immutable<z.output<typeof requestRedirect>>;
/** `requestMirror` */
export type RequestMirror = Immutable<z.output<typeof requestMirror>>;
/** `cors` */
export type CorsFilter = Immutable<z.output<typeof cors>>;
/** `path` of `urlRewrite` and `requestRedirect`. */
export type PathModifier = Immutable<z.output<typeof pathModifier>>;
/** A reference to a backend. */
export type BackendReference = RequestMirror["backendRef"];
