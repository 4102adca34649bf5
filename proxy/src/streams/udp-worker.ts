import { hashOfText } from "@gatewayproxy/runtime/text-hash";

/**
 * Returns which of the workers, from 1, has the socket of a UDP bind. If all of them shared the port, the kernel would
 * choose one by the addresses and ports of a datagram and by the number of sockets, and sessions would move to other
 * workers, and to other endpoints, whenever a worker starts or ends.
 *
 * @param bind its `bindName`.
 * @param workers at least 1.
 */
export function udpWorkerOf(bind: string, workers: number): number {
  return 1 + (hashOfText(bind) % workers);
}
