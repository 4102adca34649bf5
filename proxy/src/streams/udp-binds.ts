/** The UDP binds of a worker, and the sessions of all of them together. */
import type { CompiledStreamListener } from "./compiled-stream-route.ts";
import { SessionShare } from "./session-share.ts";
import type { StreamServices } from "./stream-services.ts";
import { UdpServer } from "./udp-server.ts";
import type { UdpAddress } from "./udp-socket.ts";

/** The open sockets, by the names of their binds. */
export class UdpBinds {
  readonly #services: StreamServices;
  readonly #sessions: SessionShare;
  readonly #open = new Map<string, UdpServer>();
  /** Those that are drained, until they are closed. */
  readonly #retired = new Map<UdpServer, Promise<void>>();

  constructor(services: StreamServices) {
    this.#services = services;
    this.#sessions = new SessionShare(services.settings.maxSessions);
  }

  portOf(name: string): number | undefined {
    return this.#open.get(name)?.port;
  }

  /** Opens the socket of a bind that has none, and takes its listener. Rejects with the error of Node. */
  async serve(name: string, address: UdpAddress, listener: CompiledStreamListener | undefined): Promise<void> {
    let server = this.#open.get(name);
    if (server === undefined) {
      server = await UdpServer.open(address, this.#services, this.#sessions);
      this.#open.set(name, server);
    }
    server.update(listener);
  }

  /** Closes the binds that are not in a snapshot. @param names those that are. */
  keep(names: ReadonlySet<string>): void {
    for (const [name, server] of this.#open) {
      if (names.has(name)) continue;
      this.#open.delete(name);
      server.destroy("RouteChanged");
    }
  }

  /** Begins no sessions. Resolves when the last one has ended. */
  async drain(): Promise<void> {
    for (const server of this.#open.values()) {
      this.#retired.set(
        server,
        server.drain().finally(() => this.#retired.delete(server)),
      );
    }
    this.#open.clear();
    await Promise.all(this.#retired.values());
  }

  /** As `UdpServer.sweep`. */
  sweep(nowMs: number): void {
    for (const server of this.#servers()) server.sweep(nowMs);
  }

  /** Closes all sockets and ends all sessions at once. */
  destroy(): void {
    for (const server of this.#servers()) server.destroy("Drained");
  }

  #servers(): readonly UdpServer[] {
    return [...this.#open.values(), ...this.#retired.keys()];
  }
}
