/** What relayed connections and sessions use of their worker. */
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { LocalDenial } from "../policy/ratelimit/denial.ts";
import type { OwnSockets } from "./own-sockets.ts";
import type { StreamObserver, StreamRecord } from "../telemetry/stream-record.ts";

/** The timeouts and bounds of relayed connections and sessions. Plain data, which can be sent to threads. */
export interface StreamSettings {
  /** Time without a byte after which a relayed connection is closed; 0: none. */
  readonly tcpIdleTimeoutMs: number;
  /** Time without a datagram in either direction after which a session ends. */
  readonly udpIdleTimeoutMs: number;
  /** The most sessions of a worker. */
  readonly maxSessions: number;
}

/** An hour, a minute (as in Envoy), and 8,192 sessions. */
export const defaultStreams: StreamSettings = {
  tcpIdleTimeoutMs: 3_600_000,
  udpIdleTimeoutMs: 60_000,
  maxSessions: 8_192,
};

/** The settings and services of the streams of a worker. */
export interface StreamServices {
  readonly clock: Clock;
  readonly settings: StreamSettings;
  /** Length in bits of the IPv6 prefix that identifies a client. */
  readonly ipv6PrefixLength: number;
  readonly addresses: AddressGuard;
  /** The sockets of the worker to backends of streams. */
  readonly ownSockets: OwnSockets;
  readonly observer: StreamObserver;
  /** Called when a limit denies a connection or a session. */
  readonly onDenied: (record: StreamRecord, denial: LocalDenial) => void;
  /** Called for an internal error, which has ended the connection or session. */
  readonly onFault: (error: unknown) => void;
}
