/** Who may ask the admin server: nobody whom a web page sends. */
import type { IncomingHttpHeaders } from "node:http";
import { foreignSite, hostName, isLocalHost } from "@gatewayproxy/runtime/web-guard";
import { type AdminRefusal, refuse } from "./endpoint.ts";

/**
 * Why a request is refused; undefined when it is not.
 *
 * @param hosts that are allowed besides localhost and loopback addresses, in lower case, without port.
 */
export function findIntrusion(headers: IncomingHttpHeaders, hosts: readonly string[]): AdminRefusal | undefined {
  const name = hostName(headers);
  if (!isLocalHost(name) && !hosts.includes(name)) {
    const hint = "ask for localhost or a loopback address, or allow the host with --admin-host";
    return refuse(403, `host ${JSON.stringify(headers.host ?? "")} is not allowed`, hint);
  }
  const site = foreignSite(headers);
  if (site === undefined) return undefined;
  const hint = "only the pages of this server may ask from a browser";
  return refuse(403, `a request from another site (${site}) is not allowed`, hint);
}
