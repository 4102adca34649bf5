/**
 * The calls to one endpoint that ask to switch protocols, or have switched. They have a share of connections to
 * themselves, because a tunnel may be idle for as long as it likes: whatever tunnels do, other requests find the
 * connections that are theirs, and the reverse.
 */
import type { UpstreamCall } from "./call.ts";

export class TunnelShare {
  readonly #max: number;
  readonly #clients = new Map<string | undefined, Set<UpstreamCall>>();
  readonly #clientOf = new Map<UpstreamCall, string | undefined>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#clientOf.size;
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
   * Makes room for one of `client`, where there is none by ending the oldest of the client with the most.
   *
   * @returns false, and ends none, where `client` itself would have as many.
   */
  makeRoomFor(client: string | undefined): boolean {
    if (this.size < this.#max) return true;
    let most: ReadonlySet<UpstreamCall> | undefined;
    for (const calls of this.#clients.values()) if (calls.size > (most?.size ?? 0)) most = calls;
    if (most === undefined || most.size <= (this.#clients.get(client)?.size ?? 0) + 1) return false;
    const [oldest] = most;
    oldest?.displace({ kind: "overloaded", message: "the tunnel of a client with fewer tunnels takes its place" });
    return true;
  }
}
