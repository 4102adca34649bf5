/**
 * Sees that a port belongs to one process. Workers share their ports (SO_REUSEPORT), and the kernel would let another
 * process of the same user take part in that: each would get some of the connections, and neither would know.
 */
import { once } from "node:events";
import { createServer } from "node:net";
import type { Bind } from "../ir/snapshot.ts";
import { type BindFailure, bindFailure, bindName } from "../server/data-plane.ts";

type BindAddress = Pick<Bind, "address" | "port">;

export class PortClaims {
  /** Names of the binds that workers listen on, or are about to. */
  #ours: ReadonlySet<string> = new Set();

  /** Takes the ports of `binds` and gives up all others. @returns those that another process listens on. */
  async take(binds: readonly BindAddress[]): Promise<readonly BindFailure[]> {
    const failures = await Promise.all(
      binds.filter((bind) => !this.#ours.has(bindName(bind))).map((bind) => this.#findFailure(bind)),
    );
    const failed = failures.filter((failure) => failure !== undefined);
    const lost = new Set(failed.map(bindName));
    this.#ours = new Set(binds.map(bindName).filter((name) => !lost.has(name)));
    return failed;
  }

  /** Listens for a moment, without sharing. */
  async #findFailure(bind: BindAddress): Promise<BindFailure | undefined> {
    const { address: host, port } = bind;
    const server = createServer((socket) => socket.destroy());
    try {
      server.listen({ port, ...(host !== undefined && { host }) });
      await once(server, "listening");
      server.close();
      await once(server, "close");
      return undefined;
    } catch (error) {
      return bindFailure(bind, error);
    }
  }
}
