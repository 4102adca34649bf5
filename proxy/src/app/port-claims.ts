/**
 * Ensures that only this process listens on its ports. Workers share their ports (SO_REUSEPORT), and the kernel lets
 * other processes of the same user share them too, which would then get some of the connections.
 */
import { once } from "node:events";
import { createServer } from "node:net";
import { type BindAddress, type BindFailure, bindFailure, bindName } from "../data-plane/data-plane.ts";
import { openUdp } from "../streams/udp-socket.ts";

export class PortClaims {
  /** Names of the binds on which this process listens, or is about to listen. */
  #claimed: ReadonlySet<string> = new Set();

  /**
   * Claims the ports of `binds` and releases all others.
   *
   * @returns the binds on which another process listens.
   */
  async claim(binds: readonly BindAddress[]): Promise<readonly BindFailure[]> {
    const failures = await Promise.all(
      binds.filter((bind) => !this.#claimed.has(bindName(bind))).map((bind) => this.#findFailure(bind)),
    );
    const taken = failures.filter((failure) => failure !== undefined);
    const failedNames = new Set(taken.map(bindName));
    this.#claimed = new Set(binds.map(bindName).filter((name) => !failedNames.has(name)));
    return taken;
  }

  /** Listens briefly without sharing, to detect another listener. */
  async #findFailure(bind: BindAddress): Promise<BindFailure | undefined> {
    if (bind.transport === "UDP") return await findUdpFailure(bind);
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

async function findUdpFailure(bind: BindAddress): Promise<BindFailure | undefined> {
  try {
    const socket = await openUdp({ address: bind.address, port: bind.port });
    await new Promise<void>((resolve) => socket.close(resolve));
    return undefined;
  } catch (error) {
    return bindFailure(bind, error);
  }
}
