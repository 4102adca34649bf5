/**
 * Translates `GRPCRouteMatch`. A gRPC call is a request for the path `/service/method`, so a match of services and
 * methods is a match of paths:
 *
 * | match                         | path                                                      |
 * | ----------------------------- | --------------------------------------------------------- |
 * | Exact, service and method     | exact                                                     |
 * | RegularExpression, a service  | regular expression                                        |
 * | Exact, service                | prefix                                                    |
 * | method without service        | regular expression with less precedence than any service  |
 * | none                          | prefix `/`                                                |
 *
 * The rows are in the order of precedence. The API specifies that a match with a service precedes one without, and then
 * that one with a method precedes. It leaves regular expressions, and methods without service, to implementations. An
 * exact method precedes expressions, as for paths.
 */
import { type GrpcRouteMatch, methodPattern } from "../../api/grpc-route-match.ts";
import type { Match, PathMatch } from "../../ir/match.ts";
import { distinctMatches } from "./matches.ts";

/** Translates a match. */
export function translateGrpcMatch({ method, headers }: GrpcRouteMatch): Match {
  return {
    path: translateMethod(method),
    headers: distinctMatches(headers, (name) => name.toLowerCase()),
    query: [],
  };
}

function translateMethod(match: GrpcRouteMatch["method"]): PathMatch {
  if (match === undefined) return { kind: "PathPrefix", value: "/" };
  const { type, service, method } = match;
  if (type === "Exact" && service !== undefined) {
    return method === undefined
      ? { kind: "PathPrefix", value: `/${service}` }
      : { kind: "Exact", value: `/${service}/${method}` };
  }
  const value = methodPattern({ service, method });
  const isLate = service === undefined;
  return { kind: "RegularExpression", value, ...(isLate && { yieldsToPrefixes: true }) };
}
