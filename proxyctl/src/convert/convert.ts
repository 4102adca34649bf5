/** Converts limits of other gateways to ProxyPolicies. Pure functions. */
import * as z from "zod";
import { backendTrafficPolicySchema, convertBackendTrafficPolicy } from "./backend-traffic-policy.ts";
import { convertIngress, ingressSchema } from "./ingress.ts";
import type { Converted } from "./policy.ts";

const listSchema = z.object({ kind: z.string().endsWith("List"), items: z.array(z.unknown()) });
const kindSchema = z.object({ kind: z.string() });

/** The kinds that are converted. */
export const convertedKinds = ["Ingress", "BackendTrafficPolicy"] as const;

/** The result of a conversion, and the number of objects of `convertedKinds`. */
export interface Conversion extends Converted {
  readonly objects: number;
}

/**
 * Converts each object of `convertedKinds`, also in lists. Objects of other kinds are ignored. Throws an `Error` that
 * names the kind and the field for one that is malformed.
 */
export function convertObjects(objects: readonly unknown[]): Conversion {
  const converted = objects
    .flatMap(withItems)
    .map(convertObject)
    .filter((each) => each !== undefined);
  return {
    objects: converted.length,
    policies: converted.flatMap(({ policies }) => policies),
    notes: converted.flatMap(({ notes }) => notes),
  };
}

/** Returns the items of a list, as `kubectl get -o yaml` writes it. */
function withItems(object: unknown): readonly unknown[] {
  const list = listSchema.safeParse(object);
  return list.success ? list.data.items : [object];
}

function convertObject(object: unknown): Converted | undefined {
  const { data } = kindSchema.safeParse(object);
  if (data?.kind === "Ingress") return convertIngress(parse(data.kind, ingressSchema, object));
  if (data?.kind === "BackendTrafficPolicy") {
    return convertBackendTrafficPolicy(parse(data.kind, backendTrafficPolicySchema, object));
  }
  return undefined;
}

function parse<Schema extends z.ZodType>(kind: string, schema: Schema, object: unknown): z.output<Schema> {
  const parsed = schema.safeParse(object);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Error(`${kind}: ${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`);
}
