/**
 * Restricts connections to permitted addresses: a check of IP addresses, and a lookup for `net.connect` that returns
 * only permitted addresses. A host name is resolved and checked for each connection, which prevents DNS rebinding.
 */
import type { LookupAddress, LookupOptions } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { resolveName } from "@gatewayproxy/runtime/host-names";
import { toError } from "@gatewayproxy/runtime/thrown-value";

/** The `code` of the error of a connection that is not permitted. */
export const forbiddenAddress = "ERR_FORBIDDEN_ADDRESS";

/**
 * Returns the error for an IP address that is not permitted. Returns undefined for a permitted address and for a name.
 */
export function findForbidden(guard: AddressGuard, host: string, port: number): Error | undefined {
  const reason = isIP(host) === 0 ? undefined : guard.denialReason(host, port);
  return reason === undefined ? undefined : forbiddenError(`${host} ${reason}`);
}

/**
 * Returns a lookup that resolves a name to those of its addresses that are permitted with `port`. It fails if there are
 * none.
 */
export function guardedLookup(guard: AddressGuard, port: number): LookupFunction {
  return (host, options, done) => {
    permittedAddresses(guard, host, port, familyNumber(options)).then(
      (permitted) => {
        if (options.all === true) done(null, [...permitted]);
        else done(null, permitted[0].address, permitted[0].family);
      },
      (error: unknown) => done(toError(error), []),
    );
  };
}

type Addresses = readonly [LookupAddress, ...LookupAddress[]];

async function permittedAddresses(guard: AddressGuard, host: string, port: number, family: number): Promise<Addresses> {
  const { addresses } = await resolveName(host);
  const found = addresses.map((address) => ({ address, family: isIP(address) }));
  const ofFamily = found.filter((each) => family === 0 || each.family === family);
  const [first, ...others] = ofFamily.filter(({ address }) => guard.denialReason(address, port) === undefined);
  if (first !== undefined) return [first, ...others];
  const [denied] = ofFamily;
  throw forbiddenError(
    `${host} ${denied === undefined ? "has no address" : describeDenial(guard, denied.address, port)}`,
  );
}

/** Returns 4 or 6; 0 stands for both. */
function familyNumber({ family = 0 }: LookupOptions): number {
  return typeof family === "number" ? family : Number(family.slice("IPv".length));
}

function describeDenial(guard: AddressGuard, address: string, port: number): string {
  return `resolves to ${address}, which ${guard.denialReason(address, port) ?? "is permitted"}`;
}

function forbiddenError(message: string): Error {
  return Object.assign(new Error(message), { code: forbiddenAddress });
}
