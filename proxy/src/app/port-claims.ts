/**
 * Ensures that only this process listens on its ports. Workers share their ports (SO_REUSEPORT), and the kernel lets
 * other processes of the same user share them too: each would get some of the connections unnoticed.
 */
import { once } from "node:events";
import { createServer } from "node:net";
import type { Bind } from "../ir/snapshot.ts";
import { type BindFailure, bindFailure, bindName } from "../server/data-plane.ts";

type BindAddress = Pick<Bind, "address" | "port">;

export class PortClaims {
  /** Names of the binds that this process listens on, or is about to. */
  #claimed: ReadonlySet<string> = new Set();

  /**
   * Claims the ports of `binds` and releases all others.
   *
   * @returns those that another process listens on.
   */
  async take(binds: readonly BindAddress[]): Promise<readonly BindFailure[]> {
    const failures = await Promise.all(
      binds.filter((bind) => !this.#claimed.has(bindName(bind))).map((bind) => this.#findFailure(bind)),
    );
    const failed = failures.filter((failure) => failure !== undefined);
    const lost = new Set(failed.map(bindName));
    this.#claimed = new Set(binds.map(bindName).filter((name) => !lost.has(name)));
    return failed;
  }

  /** Listens briefly without sharing, to detect another listener. */
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
