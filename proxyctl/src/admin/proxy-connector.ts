/** Connects to the ports of a running proxy: over TCP, over a Unix socket, or through the Kubernetes API. */
import { once } from "node:events";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { CommandError, textOf } from "../command-error.ts";

/** One running proxy. */
export interface ProxyConnector {
  /** The name for messages: `pod default/web-7d9f`, `127.0.0.1:15000`. */
  readonly name: string;
  /** The short name for a column: the pod's name, or the address. */
  readonly label: string;
  readonly adminPort: number;
  /** The `Host` for the admin server, which accepts names of its own machine only. */
  readonly adminHost: string;
  /** The token for the admin server; absent: none is sent. */
  readonly adminToken?: string;
  /** Opens a connection to one of its ports, which the caller closes. Fails with a `CommandError`. */
  connect(port: number): Promise<Duplex>;
}

/** A proxy whose ports are reachable directly. */
export function tcpConnector(host: string, adminPort: number): ProxyConnector {
  const bracketedHost = host.includes(":") ? `[${host}]` : host;
  const name = `${bracketedHost}:${adminPort}`;
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
        throw connectError(`${bracketedHost}:${port}`, port === adminPort, error);
      }
      // The user of the connection handles later errors.
      return socket;
    },
  };
}

/** A proxy on this machine whose admin server listens on a Unix socket; its other ports are on loopback. */
export function unixConnector(path: string): ProxyConnector {
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
        throw connectError(isAdmin ? name : `127.0.0.1:${port}`, isAdmin, error);
      }
      return socket;
    },
  };
}

function connectError(address: string, isAdmin: boolean, error: unknown): CommandError {
  const isPortClosed = textOf(error).includes("ECONNREFUSED");
  return new CommandError({
    message: `connect to ${address}: ${isPortClosed ? "nothing listens there" : textOf(error)}`,
    advice: isAdmin
      ? [
          "check that the proxy runs, and its --admin-address (default 127.0.0.1:15000)",
          "a proxy in a cluster is reached by gateway/NAME instead of --address",
        ]
      : ["see where the proxy's listeners are: proxyctl config all"],
    cause: error,
  });
}
