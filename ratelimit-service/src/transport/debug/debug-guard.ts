/** Protects the debug port against web pages, as the admin server of the proxy is protected. */
import type { IncomingHttpHeaders } from "node:http";
import { foreignSite, hostName, isAddress, isLocalHost } from "@gatewayproxy/runtime/web-guard";
import { type HttpResponse, textResponse } from "../http/http-server.ts";

/**
 * Rejects requests for a host name that is not allowed, and those from a page of another site. Addresses are allowed:
 * Prometheus and probes use the addresses of pods, and no page can claim one.
 *
 * @param hosts the allowed host names besides localhost, in lower case, without port
 */
export function debugGuard(hosts: readonly string[]): (headers: IncomingHttpHeaders) => HttpResponse | undefined {
  return (headers) => {
    const name = hostName(headers);
    if (!isLocalHost(name) && !isAddress(name) && !hosts.includes(name)) {
      const found = JSON.stringify(headers.host ?? "");
      return textResponse(
        403,
        `host ${found} is not allowed; ask for localhost or an address, or set DEBUG_ALLOWED_HOSTS\n`,
      );
    }
    const site = foreignSite(headers);
    return site === undefined ? undefined : textResponse(403, `a request from another site (${site}) is not allowed\n`);
  };
}
