/**
 * Building blocks of the resource schemas. Each leaf says in words what it accepts, so that `issue.ts` can tell users
 * what was found and what is accepted. Bounds and patterns follow the CRDs of the Gateway API (v1.6, standard
 * channel), so that a manifest is refused here exactly when `kubectl apply` refuses it.
 */
import * as z from "zod";

/** What a schema's output looks like to everyone after the parser. */
export type Immutable<T> = T extends readonly (infer Item)[]
  ? readonly Immutable<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Immutable<T[Key]> }
    : T;

/** A map with these fields and no others; each unknown field is an issue of its own, at its own place. */
export function strictObject<Shape extends z.core.$ZodLooseShape>(shape: Shape): z.ZodObject<Shape, z.core.$strict> {
  const unknownField = z.custom<never>(() => false, { params: { unknownField: Object.keys(shape) } });
  // zod's own strict object reports all unknown fields as one issue at the parent. The catch-all accepts nothing, so
  // the outputs are the same; only its type differs.
  return z.object(shape).catchall(unknownField);
}

/**
 * What the API server is told of a schema whose rule is code here: JSON Schema keywords, and CEL rules of CRDs.
 * `scripts/generate-crds.ts` writes them down, so each stands next to the code that it must agree with.
 */
export interface Published {
  readonly type?: "string" | "integer";
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly "x-kubernetes-validations"?: readonly PublishedRule[];
}

/** A CEL rule of a CRD (Kubernetes `ValidationRule`). */
export interface PublishedRule {
  readonly rule: string;
  readonly message: string;
}

/** CEL rules, for a schema's `meta`. */
export function publishRules(...rules: readonly PublishedRule[]): { "x-kubernetes-validations": PublishedRule[] } {
  return { "x-kubernetes-validations": [...rules] };
}

/**
 * A leaf that `test` accepts; `accepted` completes the sentence "accepted is …".
 *
 * @param published the same for the API server; needed where one of our own kinds has such a field.
 */
export function leaf<T>(
  accepted: string,
  test: (value: unknown) => boolean,
  published: Published = {},
): z.ZodCustom<T, T> {
  return z.custom<T>(test, { params: { accepted } }).meta({ ...published });
}

/** An integer within bounds, both included. */
export function integer(min: number, max: number): z.ZodCustom<number, number> {
  return leaf<number>(
    `an integer from ${min} to ${max}`,
    (value) => typeof value === "number" && Number.isInteger(value) && value >= min && value <= max,
    { type: "integer", minimum: min, maximum: max },
  );
}

/** Largest value of the API's `int32`. */
export const maxInt32 = 2_147_483_647;

/** Text of `min` to `max` characters that matches `pattern`; the length is checked first, so a pattern stays cheap. */
export function text(accepted: string, limits: TextLimits): z.ZodCustom<string, string> {
  const { min = 1, max, pattern } = limits;
  return leaf<string>(
    accepted,
    (value) => typeof value === "string" && isWithin(value, min, max) && (pattern?.test(value) ?? true),
    {
      type: "string",
      ...(min > 0 && { minLength: min }),
      maxLength: max,
      ...(pattern !== undefined && { pattern: pattern.source }),
    },
  );
}

export interface TextLimits {
  /** Default 1. */
  readonly min?: number;
  readonly max: number;
  readonly pattern?: RegExp;
}

/** Free text. */
export const anyText = leaf<string>("text (quote it if it looks like a number or a truth value)", isString, {
  type: "string",
});

/** Labels, annotations, selectors. */
export const textMap = z.record(z.string(), anyText);

const subdomain = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

/** Name of an object. */
export const objectName = text("a name of lower case letters, digits, '-' and '.'", {
  max: 253,
  pattern: new RegExp(`^${subdomain}$`),
});

/** Name of a reference's target; the API leaves its form to the target's kind. */
export const targetName = text("a name of 1 to 253 characters", { max: 253 });

/** Name of a namespace. */
export const namespaceName = text("a namespace: lower case letters, digits and '-', at most 63", {
  max: 63,
  pattern: /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/,
});

/** API group; empty is the core group. */
export const group = text("an API group such as gateway.networking.k8s.io, or empty", {
  min: 0,
  max: 253,
  pattern: new RegExp(`^$|^${subdomain}$`),
});

/** Kind of an object. */
export const kindName = text("a kind such as Service", { max: 63, pattern: /^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$/ });

/** Name of a listener or of a rule. */
export const sectionName = objectName;

export const portNumber = integer(1, 65_535);

/** A host name without wildcard. */
export const preciseHostname = text("a host name in lower case such as www.example.com", {
  max: 253,
  pattern: new RegExp(`^${subdomain}$`),
});

/** A host name, perhaps with a wildcard as its first label. */
export const hostname = text("a host name in lower case such as www.example.com or *.example.com", {
  max: 253,
  pattern: new RegExp(`^(\\*\\.)?${subdomain}$`),
});

/** Name of an HTTP header or of a query parameter. */
export const headerName = text("a header name (letters, digits and !#$%&'*+-.^_`|~)", {
  max: 256,
  pattern: /^[A-Za-z0-9!#$%&'*+\-.^_`|~]+$/,
});

/** A list of at most `max` items (at least `min`, default 0). */
export function list<Item extends z.ZodType>(item: Item, limits: { readonly min?: number; readonly max: number }) {
  return z
    .array(item)
    .min(limits.min ?? 0)
    .max(limits.max);
}

/** How the API selects namespaces by their labels. */
export const labelSelector = strictObject({
  matchLabels: textMap.optional(),
  matchExpressions: z
    .array(
      strictObject({
        key: anyText,
        operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]),
        values: z.array(anyText).optional(),
      }),
    )
    .optional(),
});

export type LabelSelector = Immutable<z.output<typeof labelSelector>>;

/** In characters, as the API server counts: one of them may be two of JavaScript's. */
function isWithin(value: string, min: number, max: number): boolean {
  if (value.length < min) return false;
  return value.length <= max || (value.length <= 2 * max && Array.from(value).length <= max);
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}
