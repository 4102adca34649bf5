/** Settings of the pages that every process has beside its work, and the ports that are its own by default. */
import { socketAddress } from "./setting-kinds.ts";

export const adminPort = 15_000;
export const statsPort = 15_020;
export const readinessPort = 15_021;

/** What is served at each of a process's own ports; nothing else may be. */
export const ownPorts: ReadonlyMap<number, string> = new Map([
  [adminPort, "the admin server"],
  [statsPort, "metrics"],
  [readinessPort, "readiness"],
]);

export const pageSettings = {
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
    help: "Where a readiness probe asks GET /healthz/ready.",
  },
} as const;
