/** Access checks of the admin server: no requests from web pages of other sites, and a token if one is configured. */
import { createHash, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { foreignSite, hostName, isAddress, isLocalHost } from "@gatewayproxy/runtime/web-guard";
import { type AdminError, reject } from "./endpoint.ts";

/**
 * Returns the error for a request with a disallowed host or origin; undefined if it is allowed.
 *
 * @param hosts Allowed hosts besides localhost and loopback addresses, in lower case, without port.
 * @param requiresToken A token is required. Then every IP address is allowed as a host too, because other machines use
 *   it and DNS rebinding needs a host name.
 */
export function checkOrigin(
  headers: IncomingHttpHeaders,
  hosts: readonly string[],
  requiresToken: boolean,
): AdminError | undefined {
  const name = hostName(headers);
  if (!isLocalHost(name) && !hosts.includes(name) && !(requiresToken && isAddress(name))) {
    const hint = "use localhost or a loopback address, or allow the host with --admin-host";
    return reject(403, `host ${JSON.stringify(headers.host ?? "")} is not allowed`, hint);
  }
  const site = foreignSite(headers);
  if (site === undefined) return undefined;
  const hint = "from browsers only the pages of this server are allowed";
  return reject(403, `a request from another site (${site}) is not allowed`, hint);
}

/** Reads the token from a file, without the line break at its end. Rejects if there is none. */
export async function readToken(file: string): Promise<string> {
  const token = (await readFile(file, "utf8")).trim();
  if (token === "") throw new Error(`${file} is empty; expected a token`);
  return token;
}

/** Browsers then prompt for a password, which is the token. Any user name is accepted. */
const challenge = { "www-authenticate": 'Bearer realm="admin", Basic realm="admin: the token as password"' };

/**
 * Returns the error for a request without the right token. Reads the file for each request, so that it can be replaced.
 */
export async function checkToken(
  { authorization }: IncomingHttpHeaders,
  tokenFile: string,
): Promise<AdminError | undefined> {
  const token = await readToken(tokenFile).catch(() => undefined);
  if (token === undefined) return reject(503, "the admin token cannot be read", "see --admin-token-file of the proxy");
  if (isSame(tokenIn(authorization), token)) return undefined;
  const error = authorization === undefined ? "a token is required" : "the token is not the right one";
  const hint = "send Authorization: Bearer with the token of --admin-token-file; proxyctl takes --admin-token-file too";
  return { ...reject(401, error, hint), headers: challenge };
}

/** Returns the token of `Bearer TOKEN`, or the password of `Basic`, as browsers send it. */
function tokenIn(authorization = ""): string {
  const [, scheme = "", value = ""] = /^(bearer|basic) +(\S+)$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() !== "basic") return value;
  const pair = Buffer.from(value, "base64").toString();
  return pair.slice(pair.indexOf(":") + 1);
}

/** Compares in constant time. */
function isSame(received: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(received), digest(expected));
}
