/**
 * The protocols that a request may switch to (RFC 9110 §7.8). One list serves the `Upgrade` field of HTTP/1.1 and the
 * `:protocol` pseudo-header of HTTP/2 (RFC 8441), because both become `Upgrade` on the connection to the backend.
 *
 * After a switch the proxy no longer reads requests. A protocol that carries HTTP itself (`h2c`) would bypass all
 * routes, filters and limits, so the list never contains one.
 */

/** The permitted protocols, in the spelling that backends get, by their names in lower case. */
export type UpgradeProtocols = ReadonlyMap<string, string>;

/** Only `websocket` (RFC 6455). */
export const defaultUpgradeProtocols: readonly string[] = ["websocket"];

/** Whether `--upgrade-protocols` accepts a protocol: a name with an optional version, and not HTTP or TLS. */
export function mayBeAllowed(protocol: string): boolean {
  return isProtocolName(protocol) && !/^(?:h\d+c?|http|https|tls)(?:\/|$)/i.test(protocol);
}

/** Builds the map of permitted protocols. @param protocols that `mayBeAllowed` accepts. */
export function upgradeProtocols(protocols: readonly string[]): UpgradeProtocols {
  return new Map(protocols.map((protocol) => [protocol.toLowerCase(), protocol]));
}

/**
 * Returns the protocol to request from the backend, in the spelling of the list. Names are compared without regard to
 * case, as RFC 9110 §7.8 recommends.
 *
 * @param value of `Upgrade`. A list of protocols never matches, because the backend could choose a protocol of the list
 * that is not allowed.
 */
export function allowedUpgrade(value: string | undefined, allowed: UpgradeProtocols): string | undefined {
  return value === undefined ? undefined : allowed.get(value.toLowerCase());
}

/**
 * Returns the protocol to request from the backend for the `:protocol` of an extended CONNECT (RFC 8441 §4). Only the
 * spelling of the list in lower case matches, since there are no older clients with another one.
 */
export function allowedConnectProtocol(value: string, allowed: UpgradeProtocols): string | undefined {
  return allowed.get(value);
}

/** Whether a request is for a switch to WebSocket (RFC 6455 §4.1). */
export function isWebSocket(upgrade: string | undefined): boolean {
  return upgrade?.toLowerCase() === "websocket";
}

/** Whether a value is one protocol: a name with an optional version (RFC 9110 §7.8). */
export function isProtocolName(value: string): boolean {
  return protocolPattern.test(value);
}

/**
 * Whether a response with 101 switches to the requested protocol.
 *
 * @param selected the `Upgrade` field of the response.
 */
export function isSwitchTo(asked: string, selected: string | readonly string[] | undefined): boolean {
  return typeof selected === "string" && selected.toLowerCase() === asked.toLowerCase();
}

const protocolPattern = /^[\w!#$%&'*+.^`|~-]+(?:\/[\w!#$%&'*+.^`|~-]+)?$/;
