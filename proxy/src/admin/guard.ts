/** Who may ask the admin server: nobody whom a web page sends, and where it asks for a token, who has it. */
import { createHash, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { foreignSite, hostName, isAddress, isLocalHost } from "@gatewayproxy/runtime/web-guard";
import { type AdminRefusal, refuse } from "./endpoint.ts";

/**
 * Why a request is refused; undefined when it is not.
 *
 * @param hosts that are allowed besides localhost and loopback addresses, in lower case, without port.
 * @param asksForToken then every IP address is allowed too: other machines ask by it, and no page can claim one.
 */
export function findIntrusion(
  headers: IncomingHttpHeaders,
  hosts: readonly string[],
  asksForToken: boolean,
): AdminRefusal | undefined {
  const name = hostName(headers);
  if (!isLocalHost(name) && !hosts.includes(name) && !(asksForToken && isAddress(name))) {
    const hint = "ask for localhost or a loopback address, or allow the host with --admin-host";
    return refuse(403, `host ${JSON.stringify(headers.host ?? "")} is not allowed`, hint);
  }
  const site = foreignSite(headers);
  if (site === undefined) return undefined;
  const hint = "only the pages of this server may ask from a browser";
  return refuse(403, `a request from another site (${site}) is not allowed`, hint);
}

/** The token in a file, without the line break at its end. Rejects where there is none. */
export async function readToken(file: string): Promise<string> {
  const token = (await readFile(file, "utf8")).trim();
  if (token === "") throw new Error(`${file} is empty, accepted is a token`);
  return token;
}

/** Asks browsers for the token as a password, whatever the user. */
const challenge = { "www-authenticate": 'Bearer realm="admin", Basic realm="admin: the token as password"' };

/** Why a request without the right token is refused; the token is read anew, so that it can be replaced. */
export async function findStranger(
  { authorization }: IncomingHttpHeaders,
  tokenFile: string,
): Promise<AdminRefusal | undefined> {
  const token = await readToken(tokenFile).catch(() => undefined);
  if (token === undefined) return refuse(503, "the admin token cannot be read", "see --admin-token-file of the proxy");
  if (isSame(tokenIn(authorization), token)) return undefined;
  const error = authorization === undefined ? "a token is required" : "the token is not the right one";
  const hint = "send Authorization: Bearer with the token of --admin-token-file; proxyctl takes --admin-token-file too";
  return { ...refuse(401, error, hint), headers: challenge };
}

/** Of `Bearer TOKEN`, or the password of `Basic`, as browsers send it. */
function tokenIn(authorization = ""): string {
  const [, scheme = "", value = ""] = /^(bearer|basic) +(\S+)$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() !== "basic") return value;
  const pair = Buffer.from(value, "base64").toString();
  return pair.slice(pair.indexOf(":") + 1);
}

/** In a time that tells nothing of how much is the same. */
function isSame(given: string, wanted: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}
