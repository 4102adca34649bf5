/** Who may ask the debug port: nobody whom a web page sends, as with the proxy's admin server. */
import type { IncomingHttpHeaders } from "node:http";
import { foreignSite, hostName, isAddress, isLocalHost } from "@gatewayproxy/runtime/web-guard";
import { type HttpAnswer, textAnswer } from "../http/http-server.ts";

/**
 * Refuses requests for a host name that is not allowed, and those that a page of another site sends. Addresses are
 * allowed: Prometheus and probes ask pods by theirs, and no page can claim one.
 *
 * @param hosts that are allowed besides localhost, in lower case, without port.
 */
export function debugGuard(hosts: readonly string[]): (headers: IncomingHttpHeaders) => HttpAnswer | undefined {
  return (headers) => {
    const name = hostName(headers);
    if (!isLocalHost(name) && !isAddress(name) && !hosts.includes(name)) {
      const found = JSON.stringify(headers.host ?? "");
      return textAnswer(
        403,
        `host ${found} is not allowed; ask for localhost or an address, or set DEBUG_ALLOWED_HOSTS\n`,
      );
    }
    const site = foreignSite(headers);
    return site === undefined ? undefined : textAnswer(403, `a request from another site (${site}) is not allowed\n`);
  };
}
