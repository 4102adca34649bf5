/**
 * Connecting to nothing but permitted addresses: the check of an IP address before it is connected to, and a lookup for
 * `net.connect` that gives only permitted ones. A name is judged by what it resolves to at that very moment, so a name
 * server that changes its answer (DNS rebinding) gains nothing.
 */
import { lookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";

/** The code of the error of a connection that is not permitted. */
export const forbiddenAddress = "ERR_FORBIDDEN_ADDRESS";

/** The error of a connection to an IP address that is not permitted; undefined where it is, and for a name. */
export function findForbidden(guard: AddressGuard, host: string, port: number): Error | undefined {
  const refusal = isIP(host) === 0 ? undefined : guard.denialReason(host, port);
  return refusal === undefined ? undefined : forbidden(`${host} ${refusal}`);
}

/** Resolves a name as Node does, to those of its addresses that are permitted with `port`; fails where none is. */
export function guardedLookup(guard: AddressGuard, port: number): LookupFunction {
  return (host, options, done) => {
    lookup(host, { ...options, all: true }, (error, found) => {
      if (error !== null) {
        done(error, []);
        return;
      }
      const permitted = found.filter(({ address }) => guard.denialReason(address, port) === undefined);
      const [first] = permitted;
      const [refused] = found;
      if (first === undefined) {
        const reason = refused === undefined ? "has no address" : describe(guard, refused.address, port);
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
