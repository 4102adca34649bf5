/**
 * Who may ask: nobody whom a web page sends. The admin server has no password and listens on loopback, which every page
 * that a browser on the machine shows can reach. A page of a foreign origin is told by what browsers add to its requests
 * (Fetch metadata, Origin); one that has its own host name point to 127.0.0.1 (DNS rebinding), by the Host field.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { type AdminRefusal, refuse } from "./endpoint.ts";

/** Values of `Sec-Fetch-Site` for what the user, or a page of ours, asked for. */
const ownSites = ["same-origin", "none"];

/**
 * Why a request is refused; undefined when it is not.
 *
 * @param hosts that are allowed besides localhost and loopback addresses, in lower case, without port.
 */
export function findIntrusion(headers: IncomingHttpHeaders, hosts: readonly string[]): AdminRefusal | undefined {
  const { host = "", origin } = headers;
  const name = hostOf(host);
  if (!isLocal(name) && !hosts.includes(name)) {
    const hint = "ask for localhost or a loopback address, or allow the host with --admin-host";
    return refuse(403, `host ${JSON.stringify(host)} is not allowed`, hint);
  }
  const site = headers["sec-fetch-site"];
  const isForeignSite = site !== undefined && !(typeof site === "string" && ownSites.includes(site));
  if (isForeignSite || (origin !== undefined && origin !== `http://${host}`)) {
    const hint = "only the pages of this server may ask from a browser";
    return refuse(403, `a request from another site (${origin ?? String(site)}) is not allowed`, hint);
  }
  return undefined;
}

/** Without port and brackets, in lower case. */
function hostOf(host: string): string {
  const [, bracketed, plain = ""] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(host) ?? [];
  return (bracketed ?? plain).toLowerCase();
}

function isLocal(name: string): boolean {
  return name === "localhost" || name === "::1" || (isIP(name) === 4 && name.startsWith("127."));
}
