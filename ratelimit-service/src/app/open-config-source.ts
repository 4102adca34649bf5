/** Creates the configuration source that the settings name. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { CombinedSource } from "../config/combined-source.ts";
import type { ConfigSource } from "../config/config-source.ts";
import type { StoreAbilities } from "../config/descriptor-tree.ts";
import { FileSource } from "../config/file-source.ts";
import type { XdsServer } from "../config/xds/ads-connection.ts";
import type { ServiceSettings } from "../settings.ts";

type Values = ServiceSettings["values"];

/** Returns a source that has not started yet. `random` returns 0 ≤ x < 1. */
export async function createConfigSource(
  { values, runtime, store }: ServiceSettings,
  { clock, random, log }: { readonly clock: Clock; readonly random: () => number; readonly log: Logger },
): Promise<ConfigSource> {
  const { mergeDomainConfigs: mergesDomains } = values;
  const abilities = storeAbilities(store);
  const pollIntervalMs = values.runtimePollInterval;
  const files = new FileSource({ layout: runtime, mergesDomains, abilities, pollIntervalMs, clock });
  if (values.configType === "FILE") return files;
  // The gRPC client is half of the code, and most services read files: it is loaded only for an xDS server.
  const { XdsSource } = await import("../config/xds/xds-source.ts");
  const xds = new XdsSource({
    server: xdsServerOf(values),
    node: { id: values.xdsNodeId, metadata: values.xdsNodeMetadata ?? new Map() },
    mergesDomains,
    maxDescriptors: values.xdsMaxDescriptors,
    backoff: {
      connectIntervalMs: values.xdsServerConnectRetryInterval,
      initialMs: values.xdsBackoffInitialInterval,
      maxMs: values.xdsBackoffMaxInterval,
      randomFactor: values.xdsBackoffJitter ? values.xdsBackoffRandomFactor : 0,
    },
    clock,
    random,
    onEvent: (event, version) => log.debug({ event, version }, "xDS event"),
    onError: (problem) => log.warn({ fault: problem }, "no configuration from the xDS server"),
  });
  if (values.configDir === undefined) return xds;
  return new CombinedSource({ files, xds, servesInPart: values.forceStartWithoutInitialConfig });
}

/** Returns what the store of the settings can count. */
export function storeAbilities(store: ServiceSettings["store"]): StoreAbilities {
  return store.kind === "memcache" ? { withoutGroups: store.kind } : {};
}

function xdsServerOf(values: Values): XdsServer {
  const { xdsServerUrl: address, xdsMaxMessageBytes: maxMessageBytes } = values;
  return {
    address,
    headers: values.xdsClientAdditionalHeaders ?? new Map(),
    ...(maxMessageBytes === 0 ? {} : { maxMessageBytes }),
    ...(values.xdsServerUseTls ? { tls: xdsTlsOf(values) } : {}),
  };
}

function xdsTlsOf(values: Values): NonNullable<XdsServer["tls"]> {
  return {
    ...(values.xdsClientTlsCert === undefined ? {} : { certificateFile: values.xdsClientTlsCert }),
    ...(values.xdsClientTlsKey === undefined ? {} : { keyFile: values.xdsClientTlsKey }),
    ...(values.xdsServerTlsCaCert === undefined ? {} : { authoritiesFile: values.xdsServerTlsCaCert }),
    ...(values.xdsServerTlsSan === undefined ? {} : { serverName: values.xdsServerTlsSan }),
  };
}
