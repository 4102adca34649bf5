/** `/traffic`: the traffic of all workers since the start. */
import type { Traffic } from "@gatewayproxy/admin-api/traffic";
import type { AdminEndpoint } from "../endpoint.ts";

export function trafficEndpoint(collect: () => Promise<Traffic>): AdminEndpoint {
  return {
    path: "/traffic",
    query: [],
    summary: "Requests, statuses, durations, denials and tokens since the start, over all workers.",
    methods: { GET: async () => ({ kind: "json", value: await collect() }) },
  };
}
