/** Settings of the operator servers that every process has, and the ports that they use by default. */
import { socketAddress } from "./setting-kinds.ts";

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
