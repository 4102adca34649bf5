/**
 * Rules for the addresses that a process may connect to on behalf of configuration written by others. Addresses at
 * which the process serves its operator are always denied. With `deniesSpecial`, addresses that lead to its own machine
 * or link are denied too, unless the operator allows that exact address and port.
 */
import { networkInterfaces } from "node:os";
import { addressesWithin, canonicalAddress, literalAddress, specialKind } from "./ip-address.ts";
import type { SocketAddress } from "../settings/setting-kinds.ts";

/** The rules of an `AddressGuard`, as plain data: they are posted to worker threads. */
export interface AddressRules {
  /** Addresses at which the process serves its operator. Always denied, whatever `allowed` contains. */
  readonly own: readonly SocketAddress[];
  /** Whether loopback, link-local, metadata, unspecified, multicast, broadcast and reserved addresses are denied. */
  readonly deniesSpecial: boolean;
  /** Special addresses that the operator allows, with their exact port. */
  readonly allowed: readonly SocketAddress[];
}

/** Rules that allow every address. */
export const unrestricted: AddressRules = { own: [], deniesSpecial: false, allowed: [] };

/** The flag with which an operator allows a special address. */
export const allowFlag = "--allow-backend-address";

/** Decides by `AddressRules` whether the process may connect to an address. */
export class AddressGuard {
  readonly #rules: AddressRules;
  readonly #machineAddresses: () => readonly string[];

  /**
   * @param machineAddresses returns the addresses of the network interfaces, which may change while the process runs.
   */
  constructor(rules: AddressRules, machineAddresses: () => readonly string[] = interfaceAddresses) {
    this.#rules = rules;
    this.#machineAddresses = machineAddresses;
  }

  /**
   * Returns why the process must not connect to this IP address and port, as the rest of a sentence that begins with
   * the address; undefined if it may. Call it right before each connection, since a host name may resolve to another
   * address at any time.
   */
  denialReason(address: string, port: number): string | undefined {
    const { own, deniesSpecial, allowed } = this.#rules;
    if (own.some((listening) => listening.port === port && this.#reaches(address, listening.host))) {
      return "is an address at which the proxy serves its operator";
    }
    if (!deniesSpecial) return undefined;
    const kind = specialKind(address);
    if (kind === undefined) return undefined;
    const canonical = canonicalAddress(address);
    if (allowed.some((entry) => entry.port === port && canonicalAddress(entry.host) === canonical)) return undefined;
    return `is ${kind} address, which only the operator can allow (${allowFlag})`;
  }

  /** As `denialReason`, for a host from the configuration. Of all host names, only `localhost` is known without DNS. */
  denialReasonOfHost(host: string, port: number): string | undefined {
    const address = literalAddress(host);
    return address === undefined ? undefined : this.denialReason(address, port);
  }

  /** Whether a connection to `address` reaches a socket of this machine that listens at `listening`. */
  #reaches(address: string, listening: string): boolean {
    const kind = specialKind(address);
    if (kind === "a loopback" || kind === "an unspecified") return true;
    const reached = addressesWithin(address);
    return [listening, ...this.#machineAddresses()].some((own) => reached.includes(canonicalAddress(own) ?? own));
  }
}

function interfaceAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map(({ address }) => address));
}
