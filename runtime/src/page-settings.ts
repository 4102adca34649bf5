/** Settings of the pages that every process has beside its work. */
import { socketAddress } from "./setting-kinds.ts";

export const pageSettings = {
  statsAddress: {
    kind: socketAddress,
    flag: "stats-address",
    env: "STATS_ADDRESS",
    default: ":15020",
    help: "Where Prometheus reads GET /metrics.",
  },
  readinessAddress: {
    kind: socketAddress,
    flag: "readiness-address",
    env: "READINESS_ADDRESS",
    default: ":15021",
    help: "Where a readiness probe asks GET /healthz/ready.",
  },
} as const;
