/** `/config_dump`: the served configuration, and the objects that are not served. */
import { runInSlices } from "@gatewayproxy/runtime/steps";
import { renderConfigDump } from "../dump/config-dump.ts";
import type { DumpInput } from "../dump/input.ts";
import type { AdminEndpoint } from "../endpoint.ts";

export function configDumpEndpoint(collect: () => Promise<DumpInput>): AdminEndpoint {
  return {
    path: "/config_dump",
    query: [],
    summary: "The served configuration, and the objects that are not served; without secrets.",
    methods: { GET: async () => ({ kind: "json", value: await runInSlices(renderConfigDump(await collect())) }) },
  };
}
