/**
 * Restricts connections to permitted addresses: a check for IP addresses, and a lookup for `net.connect` that returns only
 * permitted addresses. A host name is resolved and checked for each connection, so a name server that changes its reply
 * (DNS rebinding) gains nothing.
 */
import { lookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";

/** The `code` of the error for a connection that is not permitted. */
export const forbiddenAddress = "ERR_FORBIDDEN_ADDRESS";

/** Returns the error for an IP address that is not permitted. Returns undefined for a permitted address and for a name. */
export function findForbidden(guard: AddressGuard, host: string, port: number): Error | undefined {
  const reason = isIP(host) === 0 ? undefined : guard.denialReason(host, port);
  return reason === undefined ? undefined : forbidden(`${host} ${reason}`);
}

/** Returns a lookup that resolves a name to its addresses that are permitted with `port`. It fails if none is. */
export function guardedLookup(guard: AddressGuard, port: number): LookupFunction {
  return (host, options, done) => {
    lookup(host, { ...options, all: true }, (error, found) => {
      if (error !== null) {
        done(error, []);
        return;
      }
      const permitted = found.filter(({ address }) => guard.denialReason(address, port) === undefined);
      const [first] = permitted;
      const [denied] = found;
      if (first === undefined) {
        const reason = denied === undefined ? "has no address" : describe(guard, denied.address, port);
        done(forbidden(`${host} ${reason}`), []);
      } else if (options.all === true) done(null, permitted);
      else done(null, first.address, first.family);
    });
  };
}

function describe(guard: AddressGuard, address: string, port: number): string {
  return `resolves to ${address}, which ${guard.denialReason(address, port) ?? "is permitted"}`;
}

function forbidden(message: string): Error {
  return Object.assign(new Error(message), { code: forbiddenAddress });
}
