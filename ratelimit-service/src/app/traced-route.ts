/** Wraps a route of the HTTP port with the span of each request, and makes its trace known to the log. */
import type { IncomingHttpHeaders } from "node:http";
import { knownMethod } from "@gatewayproxy/runtime/known-methods";
import { parseTraceparent, traceparentHeader } from "@gatewayproxy/runtime/trace-context";
import type { HttpRequest, HttpResponse, HttpRoute } from "../transport/http/http-server.ts";
import type { CurrentTrace, TracedCall } from "../tracing/current-trace.ts";
import type { ServiceTracing } from "../tracing/service-tracing.ts";

/** As `tracedMethod`, for the route of a path. @param path `/json` */
export function tracedRoute(
  path: string,
  route: HttpRoute,
  tracing: ServiceTracing | undefined,
  current: CurrentTrace,
  logsCalls: boolean,
): HttpRoute {
  if (tracing !== undefined) return routeWithSpans(path, route, tracing);
  if (!logsCalls) return route;
  return (request) => {
    const trace = parseTraceparent(fieldOf(request.headers, traceparentHeader));
    return trace === undefined ? route(request) : responded(route, request, trace, current);
  };
}

/** Calls the route in a trace. The response, or the error, is then known as that of the call. */
async function responded(
  route: HttpRoute,
  request: HttpRequest,
  call: TracedCall,
  current: CurrentTrace,
): Promise<HttpResponse> {
  try {
    const response = await current.run(call, () => route(request));
    current.endedWith(response, call);
    return response;
  } catch (error) {
    current.endedWith(error, call);
    throw error;
  }
}

function routeWithSpans(path: string, route: HttpRoute, tracing: ServiceTracing): HttpRoute {
  return async (request) => {
    const call = tracing.begin(fieldsOf(request.headers));
    let response: HttpResponse | undefined;
    try {
      response = await responded(route, request, call, tracing.current);
      return response;
    } finally {
      const status = response?.status ?? 500;
      const isError = status >= 500;
      const method = knownMethod(request.method);
      tracing.end(call, `${method ?? "HTTP"} ${path}`, isError, {
        "http.request.method": method ?? "_OTHER",
        "http.route": path,
        "http.response.status_code": status,
        "http.request.body.size": request.body.length,
        "url.path": path,
        "url.scheme": "http",
        "client.address": request.client,
        "error.type": isError ? String(status) : undefined,
      });
    }
  };
}

function fieldsOf(headers: IncomingHttpHeaders): readonly string[] {
  return Object.keys(headers).flatMap((name) => [name, fieldOf(headers, name) ?? ""]);
}

function fieldOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "object" ? value.join(",") : value;
}
