/** How a process is reached, wherever it runs: something that opens connections to its ports. */
import { once } from "node:events";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { CommandError, textOf } from "../command-error.ts";

/** One running proxy. */
export interface Reach {
  /** For people: `pod default/web-7d9f`, `127.0.0.1:15000`. */
  readonly name: string;
  /** Short, for a column: the pod's name, or the address. */
  readonly label: string;
  readonly adminPort: number;
  /** What to send as `Host` to the admin server, which answers to names of its own machine only. */
  readonly adminHost: string;
  /** What the admin server asks for; absent: nothing is sent. */
  readonly adminToken?: string;
  /** Opens a connection to one of its ports; the stream is the caller's. Fails with a `CommandError`. */
  connect(port: number): Promise<Duplex>;
}

/** A proxy whose ports can be connected to as they are. */
export function directReach(host: string, adminPort: number): Reach {
  const shownHost = host.includes(":") ? `[${host}]` : host;
  const name = `${shownHost}:${adminPort}`;
  return {
    name,
    label: name,
    adminPort,
    adminHost: name,
    async connect(port) {
      const socket = connect(port, host);
      try {
        await once(socket, "connect");
      } catch (error) {
        throw refused(`${shownHost}:${port}`, port === adminPort, error);
      }
      // Whoever uses the connection hears of later failures.
      return socket;
    },
  };
}

/** A proxy on this machine whose admin server listens on a Unix socket; its other ports are on loopback. */
export function socketReach(path: string): Reach {
  const name = `unix:${path}`;
  const adminPort = 0;
  return {
    name,
    label: name,
    adminPort,
    adminHost: "localhost",
    async connect(port) {
      const isAdmin = port === adminPort;
      const socket = isAdmin ? connect(path) : connect(port, "127.0.0.1");
      try {
        await once(socket, "connect");
      } catch (error) {
        throw refused(isAdmin ? name : `127.0.0.1:${port}`, isAdmin, error);
      }
      return socket;
    },
  };
}

function refused(address: string, isAdmin: boolean, error: unknown): CommandError {
  const isRefused = textOf(error).includes("ECONNREFUSED");
  return new CommandError({
    message: `connect to ${address}: ${isRefused ? "nothing listens there" : textOf(error)}`,
    advice: isAdmin
      ? [
          "check that the proxy runs, and its --admin-address (127.0.0.1:15000 unless told otherwise)",
          "a proxy in a cluster is reached by gateway/NAME instead of --address",
        ]
      : ["see where the proxy's listeners are: proxyctl config all"],
    cause: error,
  });
}
