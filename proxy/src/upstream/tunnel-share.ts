/**
 * The calls to an endpoint that request a switch of protocols, or have switched. They have their own share of
 * connections, since a tunnel may be idle for any time. Tunnels and other requests therefore do not reduce each other's
 * connections.
 */
import type { UpstreamCall } from "./call.ts";
import type { ConnectionCall } from "./connection.ts";

export class TunnelShare {
  readonly #max: number;
  readonly #clients = new Map<string | undefined, Set<UpstreamCall>>();
  readonly #clientOf = new Map<ConnectionCall, string | undefined>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#clientOf.size;
  }

  /** Whether a call is one of them. */
  has(call: ConnectionCall): boolean {
    return this.#clientOf.has(call);
  }

  /** Adds a call; does not check the limit, which `makeRoomFor` does. */
  add(call: UpstreamCall, client: string | undefined): void {
    this.#clientOf.set(call, client);
    const own = this.#clients.get(client);
    if (own === undefined) this.#clients.set(client, new Set([call]));
    else own.add(call);
  }

  /** @returns whether the call was one of them. */
  delete(call: UpstreamCall): boolean {
    if (!this.#clientOf.has(call)) return false;
    const client = this.#clientOf.get(call);
    this.#clientOf.delete(call);
    const own = this.#clients.get(client);
    own?.delete(call);
    if (own?.size === 0) this.#clients.delete(client);
    return true;
  }

  /**
   * Makes room for a call of `client`, if necessary by ending the oldest one of the client with the most.
   *
   * @returns false, without ending one, if `client` itself would have as many.
   */
  makeRoomFor(client: string | undefined): boolean {
    if (this.size < this.#max) return true;
    let most: ReadonlySet<UpstreamCall> | undefined;
    for (const calls of this.#clients.values()) if (calls.size > (most?.size ?? 0)) most = calls;
    if (most === undefined || most.size <= (this.#clients.get(client)?.size ?? 0) + 1) return false;
    const [oldest] = most;
    oldest?.displace({ kind: "overloaded", message: "a client with fewer tunnels has opened another one" });
    return true;
  }
}
