/** Where limits come from, as the settings say. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { ConfigSource } from "../config/config-source.ts";
import { FileSource } from "../config/file-source.ts";
import type { ServiceSettings } from "../settings.ts";

/** A source that has not started yet. */
export function createConfigSource({ values, runtime }: ServiceSettings, clock: Clock): ConfigSource {
  return new FileSource({
    layout: runtime,
    mergesDomains: values.mergeDomainConfigs,
    pollIntervalMs: values.runtimePollInterval,
    clock,
  });
}
