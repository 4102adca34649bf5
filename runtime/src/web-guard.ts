/**
 * Whether a request comes from a web page. A server for operators that listens on loopback can be reached by every page
 * that a browser on the machine shows: a page of another origin is known by what browsers add to its requests (Fetch
 * metadata, `Origin`), one that has its own host name point to the machine (DNS rebinding) by the `Host` field.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";

/** Values of `Sec-Fetch-Site` for what the user, or a page of the server itself, asked for. */
const ownSites: readonly unknown[] = [undefined, "same-origin", "none"];

/** The host of a `Host` field: without port and brackets, in lower case. */
export function hostName({ host = "" }: IncomingHttpHeaders): string {
  const [, bracketed, plain = ""] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(host) ?? [];
  return (bracketed ?? plain).toLowerCase();
}

/** Whether a host can be no other machine's name: localhost, or a loopback address. */
export function isLocalHost(name: string): boolean {
  return name === "localhost" || name === "::1" || (isIP(name) === 4 && name.startsWith("127."));
}

/** Whether a host is an address, which no name server can make point elsewhere. */
export function isAddress(name: string): boolean {
  return isIP(name) !== 0;
}

/** The site that a page asks from that is not the server's own; undefined where no such page asks. */
export function foreignSite({ host, origin, "sec-fetch-site": site }: IncomingHttpHeaders): string | undefined {
  if (!ownSites.includes(site)) return origin ?? String(site);
  return origin === undefined || origin === `http://${host ?? ""}` ? undefined : origin;
}

/** The site of any page that asks, the server's own included; for what no page has business with. */
export function anySite({ origin, "sec-fetch-site": site }: IncomingHttpHeaders): string | undefined {
  if (origin !== undefined) return origin;
  return site === undefined || site === "none" ? undefined : site;
}
