/**
 * Where a process may connect to on behalf of configuration that others write: never to the addresses at which it
 * serves its operator, and, where that is asked for, to nothing that leads to its own machine or link, unless the
 * operator allows the very address and port.
 */
import { networkInterfaces } from "node:os";
import { addressesWithin, canonicalAddress, literalAddress, specialKind } from "./ip-address.ts";
import type { SocketAddress } from "./setting-kinds.ts";

/** Plain data: it crosses threads. */
export interface AddressRules {
  /** Where the process listens for its operator. Never connected to, whatever is allowed. */
  readonly own: readonly SocketAddress[];
  /** Whether loopback, link-local, metadata, unspecified, multicast and broadcast addresses are refused. */
  readonly refusesSpecial: boolean;
  /** Those of the special addresses that the operator allows. */
  readonly allowed: readonly SocketAddress[];
}

export const unrestricted: AddressRules = { own: [], refusesSpecial: false, allowed: [] };

/** The flag by which an operator allows a special address. */
export const allowFlag = "--allow-backend-address";

export class AddressGuard {
  readonly #rules: AddressRules;
  readonly #machineAddresses: () => readonly string[];

  /** @param machineAddresses of the network interfaces; they may change while the process runs. */
  constructor(rules: AddressRules, machineAddresses: () => readonly string[] = interfaceAddresses) {
    this.#rules = rules;
    this.#machineAddresses = machineAddresses;
  }

  /**
   * Why nothing connects to this IP address and port, to follow the address in a sentence; undefined where it may. To be
   * asked about each address right before it is connected to: what a name resolves to may change at any time.
   */
  refusal(address: string, port: number): string | undefined {
    const { own, refusesSpecial, allowed } = this.#rules;
    if (own.some((each) => each.port === port && this.#reaches(address, each.host))) {
      return "is an address at which the proxy serves its operator";
    }
    if (!refusesSpecial) return undefined;
    const kind = specialKind(address);
    if (kind === undefined) return undefined;
    const canonical = canonicalAddress(address);
    if (allowed.some((each) => each.port === port && canonicalAddress(each.host) === canonical)) return undefined;
    return `is ${kind} address, which only the operator can allow (${allowFlag})`;
  }

  /** The same of a host as configuration has it. Of a name only `localhost` is known without a name server. */
  refusalOfHost(host: string, port: number): string | undefined {
    const address = literalAddress(host);
    return address === undefined ? undefined : this.refusal(address, port);
  }

  /** Whether a connection to `address` arrives at a socket of this machine that listens at `listening`. */
  #reaches(address: string, listening: string): boolean {
    const kind = specialKind(address);
    if (kind === "a loopback" || kind === "an unspecified") return true;
    const reached = addressesWithin(address);
    return [listening, ...this.#machineAddresses()].some((own) => reached.includes(canonicalAddress(own) ?? own));
  }
}

function interfaceAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address));
}
