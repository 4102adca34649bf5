/** Closes connections that have sent a ClientHello, with the reason in an alert of TLS (RFC 8446 §6). */
import type { Socket } from "node:net";
import type { Clock } from "@gatewayproxy/runtime/clock";

/** The descriptions that the proxy sends by itself. */
export const tlsAlerts = {
  handshakeFailure: 40,
  accessDenied: 49,
  decodeError: 50,
  internalError: 80,
  unrecognizedName: 112,
} as const;
/** The name of a description. */
export type TlsAlert = keyof typeof tlsAlerts;

/** Time for the client to read the alert and close the connection. */
const lingerMs = 1_000;

/** Sends a fatal alert, and closes the connection when the client has closed it, or after a second. */
export function closeWithAlert(socket: Socket, alert: TlsAlert, clock: Clock): void {
  socket.end(Buffer.from([21, 3, 3, 0, 2, 2, tlsAlerts[alert]]));
  // Bytes that are not read would make the kernel reset the connection, and the client would not see the alert.
  socket.resume();
  const timer = clock.setTimer(lingerMs, () => socket.destroy());
  socket.once("close", () => timer.cancel());
}
