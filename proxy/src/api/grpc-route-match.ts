/** `GRPCRouteMatch` (Gateway API v1.7): the conditions of a rule on a gRPC call. */
import * as z from "zod";
import { type MatchPattern, patternCheck, tooLarge, valueMatch } from "./http-route-match.ts";
import { type Immutable, list, strictObject, text } from "./schema.ts";

const part = text("text of 1 to 1024 characters", { max: 1024 });

/** The patterns of the CRD. */
const exactService = /^\.?[a-z_][a-z_0-9]*(\.[a-z_][a-z_0-9]*)*$/i;
const exactMethod = /^[A-Za-z_][A-Za-z_0-9]*$/;

const methodMatch = strictObject({
  type: z.enum(["Exact", "RegularExpression"]).default("Exact"),
  service: part.optional(),
  method: part.optional(),
}).superRefine((match, context) => {
  for (const { path, message } of methodErrors(match)) context.addIssue({ code: "custom", path: [...path], message });
});

interface MethodParts {
  readonly type: "Exact" | "RegularExpression";
  readonly service?: string | undefined;
  readonly method?: string | undefined;
}

function methodErrors(match: MethodParts): readonly { readonly path: readonly string[]; readonly message: string }[] {
  const { type, service, method } = match;
  if (service === undefined && method === undefined) {
    return [{ path: [], message: "has neither service nor method, required is one of them or both" }];
  }
  if (type === "RegularExpression") {
    const error = tooLarge(methodPattern(match));
    return error === undefined ? [] : [{ path: [], message: error }];
  }
  const found = (value: string, accepted: string) => `found ${JSON.stringify(value)}, accepted is ${accepted}`;
  return [
    ...(service === undefined || exactService.test(service)
      ? []
      : [{ path: ["service"], message: found(service, "a service such as package.v1.Service") }]),
    ...(method === undefined || exactMethod.test(method)
      ? []
      : [{ path: ["method"], message: found(method, "a method such as GetUser") }]),
  ];
}

/** Returns the regular expression for the path of the calls that a match of service and method selects. */
export function methodPattern({ service, method }: Pick<MethodParts, "service" | "method">): string {
  return `/${patternPart(service)}/${patternPart(method)}`;
}

/** A part must match as a whole, so its own anchors have no effect. Within the path, they would never hold. */
function patternPart(source: string | undefined): string {
  return source === undefined ? "[^/]+" : `(?:${source.replace(/^\^/, "").replace(/(?<!\\)\$$/, "")})`;
}

/** Schema of a match. */
export const grpcRouteMatch = strictObject({
  method: methodMatch.optional(),
  headers: list(valueMatch(4096), { max: 16 }).default([]),
});

/** A parsed match. */
export type GrpcRouteMatch = Immutable<z.output<typeof grpcRouteMatch>>;

/** Checks the regular expressions of a GRPCRoute. */
export const checkGrpcPatterns = patternCheck(patternsOf);

function patternsOf({ method, headers }: GrpcRouteMatch): readonly MatchPattern[] {
  const ofMethod =
    method?.type === "RegularExpression"
      ? (["service", "method"] as const).flatMap((name) => {
          const value = method[name];
          return value === undefined ? [] : [{ value, path: ["method", name] }];
        })
      : [];
  const ofHeaders = headers.flatMap(({ type, value }, index) =>
    type === "RegularExpression" ? [{ value, path: ["headers", index, "value"] }] : [],
  );
  return [...ofMethod, ...ofHeaders];
}
