/** Settings of the operator servers that every process has, and the ports that they use by default. */
import { specialKind } from "../net/ip-address.ts";
import { type SocketAddress, socketAddress } from "./setting-kinds.ts";

/** Default port of the admin server. */
export const adminPort = 15_000;
/** Default port of the metrics. */
export const statsPort = 15_020;
/** Default port of the readiness probe. */
export const readinessPort = 15_021;

/** The purpose of each port that a process reserves for itself. No listener may use them. */
export const ownPorts: ReadonlyMap<number, string> = new Map([
  [adminPort, "the admin server"],
  [statsPort, "metrics"],
  [readinessPort, "readiness"],
]);

/** The ports of the chart's rate limit service beside each proxy. Calls come to the first one. */
const limitSidecarPorts = [15_081, 15_082, 15_083, 15_084] as const;

/**
 * Returns the ports of programs beside the process, with their use: those of the loopback addresses to which an
 * operator allows connections. A listener that is opened first would take the port, and what is meant for the program.
 */
export function portsBeside(allowed: readonly SocketAddress[]): ReadonlyMap<number, string> {
  const ports = allowed.flatMap(({ host, port }) => (specialKind(host) === "a loopback" ? [port] : []));
  const all = ports.includes(limitSidecarPorts[0]) ? [...ports, ...limitSidecarPorts] : ports;
  return new Map(all.map((port) => [port, "a program beside it"]));
}

/** Returns the ports with metrics of a pod: that of the proxy, and that of the rate limit service beside it. */
export function metricsPorts(allowed: readonly SocketAddress[]): readonly number[] {
  const sidecar = limitSidecarPorts[3];
  return portsBeside(allowed).has(sidecar) ? [statsPort, sidecar] : [statsPort];
}

/** Settings of the metrics server and the readiness server. */
export const operatorServerSettings = {
  statsAddress: {
    kind: socketAddress,
    flag: "stats-address",
    env: "STATS_ADDRESS",
    default: `:${statsPort}`,
    help: "Where Prometheus reads GET /metrics.",
  },
  readinessAddress: {
    kind: socketAddress,
    flag: "readiness-address",
    env: "READINESS_ADDRESS",
    default: `:${readinessPort}`,
    help: "Where a readiness probe reads GET /healthz/ready.",
  },
} as const;
