/** Opens the sockets of UDP listeners. */
import { createSocket, type Socket } from "node:dgram";
import { isIP } from "node:net";

/** Where to receive datagrams. */
export interface UdpAddress {
  /** An IP address; undefined: every address of the machine. */
  readonly address: string | undefined;
  /** 0 takes a free one. */
  readonly port: number;
}

/** Resolves with a bound socket. Rejects with the error of Node. */
export async function openUdp({ address, port }: UdpAddress): Promise<Socket> {
  if (address !== undefined) return await bind(isIP(address) === 6 ? "udp6" : "udp4", address, port);
  try {
    // Both families: an IPv6 socket gets datagrams of IPv4 too.
    return await bind("udp6", "::", port);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code !== "EAFNOSUPPORT" && code !== "EADDRNOTAVAIL" && code !== "EINVAL") throw error;
    return await bind("udp4", "0.0.0.0", port);
  }
}

function bind(type: "udp4" | "udp6", address: string, port: number): Promise<Socket> {
  const socket = createSocket({ type });
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => {
      socket.close();
      reject(error);
    };
    socket.once("error", fail);
    socket.bind({ address, port }, () => {
      socket.off("error", fail);
      resolve(socket);
    });
  });
}
