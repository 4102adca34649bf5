/** Translates the filter CORS, and precomputes everything that does not depend on a request. */
import type { CorsFilter } from "../../../api/http-route-filter.ts";
import type { Cors, Filter, OriginPattern, OriginRule, WordRule } from "../../../ir/filter.ts";

export function translateCors(filter: CorsFilter): Filter {
  const methods = wordRule(filter.allowMethods);
  const headers = wordRule(filter.allowHeaders);
  const exposeHeaders = wordRule(filter.exposeHeaders);
  const cors: Cors = {
    origins: originRule(filter.allowOrigins ?? []),
    allowCredentials: filter.allowCredentials ?? false,
    ...(methods === undefined ? {} : { methods }),
    ...(headers === undefined ? {} : { headers }),
    ...(exposeHeaders === undefined ? {} : { exposeHeaders }),
    maxAgeSeconds: filter.maxAge,
  };
  return { kind: "CORS", ...cors };
}

function wordRule(words: readonly string[] | undefined): WordRule | undefined {
  if (words === undefined || words.length === 0) return undefined;
  return words.includes("*") ? { kind: "any" } : { kind: "listed", words };
}

/** An empty list allows no origin. The API does not define it, and this is safe. */
function originRule(origins: readonly string[]): OriginRule {
  return origins.includes("*") ? { kind: "any" } : { kind: "listed", patterns: origins.map(originPattern) };
}

const defaultPorts: Readonly<Record<string, string>> = { "http://": ":80", "https://": ":443" };

/** Parses an origin: scheme, host with an optional `*` as its first label, and an optional port. */
function originPattern(origin: string): OriginPattern {
  const text = origin.toLowerCase();
  const scheme = text.slice(0, text.indexOf("//") + 2);
  const portStart = text.indexOf(":", scheme.length);
  const host = text.slice(scheme.length, portStart === -1 ? undefined : portStart);
  const port = portStart === -1 ? "" : text.slice(portStart);
  return {
    scheme,
    // "*.example.com" matches the suffix ".example.com", and "*" the empty suffix.
    host: host.startsWith("*") ? { kind: "suffix", value: host.slice(1) } : { kind: "exact", value: host },
    port: port === defaultPorts[scheme] ? "" : port,
  };
}
