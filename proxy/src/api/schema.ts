/**
 * Building blocks of the resource schemas. Each leaf describes what it accepts, so that `issue.ts` can build messages
 * with the value that was found and the values that are accepted. Bounds and patterns follow the CRDs of the Gateway
 * API (v1.7, standard channel), so that a manifest is rejected here exactly when `kubectl apply` rejects it.
 */
import * as z from "zod";

/** A deeply read-only view of the output of a schema. */
export type Immutable<T> = T extends readonly (infer Item)[]
  ? readonly Immutable<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Immutable<T[Key]> }
    : T;

/** Returns a schema for a map with these fields and no others. Each unknown field is an issue at its own path. */
export function strictObject<Shape extends z.core.$ZodLooseShape>(shape: Shape): z.ZodObject<Shape, z.core.$strict> {
  const unknownField = z.custom<never>(
    counting(() => false),
    { params: { unknownField: Object.keys(shape) } },
  );
  // zod's own strict object reports all unknown fields as one issue of the parent. The catch-all accepts nothing, so
  // the outputs are the same; only its type differs.
  return z.object(shape).catchall(unknownField);
}

/**
 * What the CRD publishes about a schema whose rule is code here: JSON Schema keywords and CEL rules.
 * `scripts/generate-crds.ts` writes them, so that each is next to the code that it must agree with.
 */
export interface Published {
  readonly type?: "string" | "integer";
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  /** A number or text; the other keywords apply to values of their type. Replaces `type`. */
  readonly "x-kubernetes-int-or-string"?: true;
  readonly "x-kubernetes-validations"?: readonly PublishedRule[];
}

/** A CEL rule of a CRD (Kubernetes `ValidationRule`). */
export interface PublishedRule {
  readonly rule: string;
  readonly message: string;
}

/** Returns CEL rules for the `meta` of a schema. */
export function publishRules(...rules: readonly PublishedRule[]): { "x-kubernetes-validations": PublishedRule[] } {
  return { "x-kubernetes-validations": [...rules] };
}

/**
 * Returns a schema for the values that `test` accepts; `accepted` completes the sentence "accepted is …".
 *
 * @param published the same rule for the CRD; required for fields of the kinds of this gateway.
 */
export function leaf<T>(
  accepted: string,
  test: (value: unknown) => boolean,
  published: Published = {},
): z.ZodCustom<T, T> {
  return z.custom<T>(counting(test), { params: { accepted } }).meta({ ...published });
}

/** Returns a schema for an integer within bounds, both inclusive. */
export function integer(min: number, max: number): z.ZodCustom<number, number> {
  return leaf<number>(
    `an integer from ${min} to ${max}`,
    (value) => typeof value === "number" && Number.isInteger(value) && value >= min && value <= max,
    { type: "integer", minimum: min, maximum: max },
  );
}

/** The largest value of the API's `int32`. */
export const maxInt32 = 2_147_483_647;

/** The largest value of a `uint32` of protobuf. */
export const maxUint32 = 4_294_967_295;

/**
 * Returns a schema for text of `min` to `max` characters that matches `pattern`. The length is checked first, which
 * bounds the cost of the pattern.
 */
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

/** Bounds of a text, in characters. */
export interface TextLimits {
  /** Default 1. */
  readonly min?: number;
  /** Maximum length. */
  readonly max: number;
  /** A valid text matches it; absent: any text. */
  readonly pattern?: RegExp;
}

/** Free text. */
export const anyText = leaf<string>("text (quote it if it looks like a number or a boolean)", isString, {
  type: "string",
});

/** Labels, annotations, selectors. */
export const textMap = z.record(z.string(), anyText);

/** Returns a schema for the first items of a list, for lists of the API server that have no useful bound. */
export function firstOf<Item extends z.ZodType>(max: number, item: Item) {
  return z
    .array(z.unknown())
    .transform((all) => all.slice(0, max))
    .pipe(z.array(item));
}

const subdomain = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

/** Name of an object. */
export const objectName = text("a name of lower case letters, digits, '-' and '.'", {
  max: 253,
  pattern: new RegExp(`^${subdomain}$`),
});

/** The name of a reference's target. Its syntax depends on the kind of the target. */
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

/** A port number. */
export const portNumber = integer(1, 65_535);

/** A host name without wildcard. */
export const preciseHostname = text("a host name in lower case such as www.example.com", {
  max: 253,
  pattern: new RegExp(`^${subdomain}$`),
});

/** A host name, optionally with a wildcard as its first label. */
export const hostname = text("a host name in lower case such as www.example.com or *.example.com", {
  max: 253,
  pattern: new RegExp(`^(\\*\\.)?${subdomain}$`),
});

/** Name of an HTTP header or of a query parameter. */
export const headerName = text("a header name (letters, digits and !#$%&'*+-.^_`|~)", {
  max: 256,
  pattern: /^[A-Za-z0-9!#$%&'*+\-.^_`|~]+$/,
});

/** Returns a schema for a list of at most `max` items (at least `min`, default 0). */
export function list<Item extends z.ZodType>(item: Item, limits: { readonly min?: number; readonly max: number }) {
  return z
    .array(item.refine(accepted, { when: countErrors }))
    .min(limits.min ?? 0)
    .max(limits.max);
}

const accepted = () => true;

/** Ends the parsing of an object. */
export class TooManyErrors extends Error {}

/** Errors until the parsing ends. To describe tens of thousands takes a quarter of a second. */
let errorsLeft = Number.POSITIVE_INFINITY;

/**
 * Runs `parse`, which throws `TooManyErrors` if an object has more than `max` errors, some of them counted several
 * times.
 */
export function withErrorBound<Value>(max: number, parse: () => Value): Value {
  errorsLeft = max;
  try {
    return parse();
  } finally {
    errorsLeft = Number.POSITIVE_INFINITY;
  }
}

/** Called for each item of a list, except if a leaf of it is invalid. Never runs the check to which it belongs. */
function countErrors({ issues }: z.core.ParsePayload): boolean {
  count(issues.length);
  return false;
}

/** Returns the test of a leaf, which counts as an error if it fails. */
function counting(test: (value: unknown) => boolean): (value: unknown) => boolean {
  return (value) => {
    // A test may try several schemas.
    const left = errorsLeft;
    errorsLeft = Number.POSITIVE_INFINITY;
    const isValid = test(value);
    errorsLeft = left;
    if (!isValid) count(1);
    return isValid;
  };
}

function count(errors: number): void {
  errorsLeft -= errors;
  if (errorsLeft < 0) throw new TooManyErrors();
}

/** A label selector for namespaces (`metav1.LabelSelector`). */
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

/** A parsed label selector. */
export type LabelSelector = Immutable<z.output<typeof labelSelector>>;

/** Compares the length in characters, as the API server counts; a character may be two UTF-16 units. */
function isWithin(value: string, min: number, max: number): boolean {
  if (value.length < min) return false;
  return value.length <= max || (value.length <= 2 * max && Array.from(value).length <= max);
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}
