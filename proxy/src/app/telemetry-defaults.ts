/** The defaults of the proxy for the variables of OpenTelemetry. */
import { randomUUID } from "node:crypto";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { MetricExportDefaults } from "@gatewayproxy/runtime/metric-export-settings";
import type { TracingDefaults } from "@gatewayproxy/runtime/tracing-settings";
import type { ProxySettings } from "./settings.ts";

/** Returns the defaults: an endpoint switches an export on, and the resource describes this process. */
export function telemetryDefaults(
  version: string,
  { gateway }: Pick<ProxySettings, "gateway">,
): TracingDefaults & MetricExportDefaults {
  return {
    endpointSwitchesOn: true,
    resource: {
      "service.name": "gateway-proxy",
      "service.version": version,
      // One for all workers: they are one service instance.
      "service.instance.id": randomUUID(),
      "telemetry.sdk.name": "opentelemetry",
      "telemetry.sdk.language": "nodejs",
      ...(gateway !== undefined && { "gatewayproxy.gateway": objectKey(gateway) }),
    },
  };
}
