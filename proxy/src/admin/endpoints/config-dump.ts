/** `/config_dump`: what is served, and what is not. */
import { inTurns } from "@gatewayproxy/runtime/steps";
import { renderConfigDump } from "../dump/config-dump.ts";
import type { DumpInput } from "../dump/input.ts";
import type { AdminEndpoint } from "../endpoint.ts";

export function configDumpEndpoint(collect: () => Promise<DumpInput>): AdminEndpoint {
  return {
    path: "/config_dump",
    query: [],
    summary: "The configuration that is served, and what of the resources is not; without secrets.",
    methods: { GET: async () => ({ kind: "json", value: await inTurns(renderConfigDump(await collect())) }) },
  };
}
