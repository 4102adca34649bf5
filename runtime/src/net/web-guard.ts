/**
 * Detects requests from web pages. Every page that a browser on the machine shows can reach an operator server that
 * listens on loopback. A page of another origin is detected by the fields that browsers add (Fetch metadata, `Origin`);
 * a page whose own host name resolves to the machine (DNS rebinding) by the `Host` field.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";

/** Values of `Sec-Fetch-Site` for requests by the user or by a page of the server itself. */
const ownSites: readonly unknown[] = [undefined, "same-origin", "none"];

/** Returns the host of the `Host` field in lower case, without port and brackets. */
export function hostName({ host = "" }: IncomingHttpHeaders): string {
  const [, bracketed, plain = ""] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(host) ?? [];
  return (bracketed ?? plain).toLowerCase();
}

/** Whether a host can only be this machine: localhost, or a loopback address. */
export function isLocalHost(name: string): boolean {
  return name === "localhost" || name === "::1" || (isIP(name) === 4 && name.startsWith("127."));
}

/** Whether a host is an IP address, which DNS cannot redirect. */
export function isAddress(name: string): boolean {
  return isIP(name) !== 0;
}

/** Returns the origin or site of a page that is not the server's own; undefined for any other request. */
export function foreignSite({ host, origin, "sec-fetch-site": site }: IncomingHttpHeaders): string | undefined {
  if (!ownSites.includes(site)) return origin ?? String(site);
  return origin === undefined || origin === `http://${host ?? ""}` ? undefined : origin;
}

/** Returns the origin or site of any page, the server's own included; for endpoints that no page may use. */
export function anySite({ origin, "sec-fetch-site": site }: IncomingHttpHeaders): string | undefined {
  if (origin !== undefined) return origin;
  return site === undefined || site === "none" ? undefined : site;
}
