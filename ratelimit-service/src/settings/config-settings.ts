/** Settings of the configuration sources. */
import { optional, text } from "@gatewayproxy/runtime/setting-kinds";
import type { Settings } from "@gatewayproxy/runtime/settings";
import { decimal, duration, flag, integer, pairs, pemFile, word } from "./kinds.ts";

export const configSettings = {
  configDir: {
    kind: optional(text("DIR", "a folder")),
    flag: "config-dir",
    env: "CONFIG_DIR",
    help: "Folder of limit files to serve where RUNTIME_ROOT is not set, and beside the limits of an xDS server.",
  },
  configType: {
    kind: word("FILE", "GRPC_XDS_SOTW"),
    env: "CONFIG_TYPE",
    default: "FILE",
    help: "Limits come from files, or from an xDS server. With CONFIG_DIR they come from both.",
  },
  mergeDomainConfigs: {
    kind: flag,
    flag: "merge-domain-configs",
    env: "MERGE_DOMAIN_CONFIG",
    default: "false",
    help: "Several files may describe one domain.",
  },
  forceStartWithoutInitialConfig: {
    kind: flag,
    env: "FORCE_START_WITHOUT_INITIAL_CONFIG",
    default: "false",
    help: "Starts to serve before the first configuration is loaded.",
  },
  healthyWithAtLeastOneConfigLoaded: {
    kind: flag,
    env: "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
    default: "false",
    help: "Is not healthy until some domain has limits.",
  },
  runtimeRoot: {
    kind: optional(text("DIR", "a folder")),
    env: "RUNTIME_ROOT",
    defaultText: "/srv/runtime_data/current",
    help: "Root of the runtime folder, often a link that is swapped.",
  },
  runtimeSubdirectory: {
    kind: optional(text("DIR", "a relative path")),
    env: "RUNTIME_SUBDIRECTORY",
    help: "Folder below the root.",
  },
  runtimeAppDirectory: {
    kind: text("DIR", "a relative path"),
    env: "RUNTIME_APPDIRECTORY",
    default: "config",
    help: "Folder below that, with the limit files.",
  },
  runtimeIgnoreDotFiles: {
    kind: flag,
    env: "RUNTIME_IGNOREDOTFILES",
    default: "false",
    help: "Leaves out names that begin with a dot. Set it for ConfigMap volumes, which hold each file twice.",
  },
  runtimeWatchRoot: {
    kind: flag,
    env: "RUNTIME_WATCH_ROOT",
    default: "true",
    help: "Names files from the folder above in messages. Changes are seen in either case.",
  },
  runtimePollInterval: {
    kind: duration,
    env: "RUNTIME_POLL_INTERVAL",
    default: "250ms",
    help: "Interval between two reads of the folder; a change is served after at most two.",
  },
  xdsNodeId: {
    kind: text("ID", "a node id"),
    env: "CONFIG_GRPC_XDS_NODE_ID",
    default: "default",
    help: "Node id of this service for the xDS server.",
  },
  xdsNodeMetadata: {
    kind: optional(pairs("=", ":")),
    env: "CONFIG_GRPC_XDS_NODE_METADATA",
    help: "Metadata of the node.",
  },
  xdsServerUrl: {
    kind: text("HOST:PORT", "a host and port"),
    env: "CONFIG_GRPC_XDS_SERVER_URL",
    default: "localhost:18000",
    help: "Address of the xDS server.",
  },
  xdsServerConnectRetryInterval: {
    kind: duration,
    env: "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
    default: "3s",
    help: "Pause between two attempts to connect to an xDS server that cannot be reached.",
  },
  xdsClientAdditionalHeaders: {
    kind: optional(pairs(":")),
    env: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
    help: "Headers sent to the xDS server.",
  },
  xdsServerUseTls: {
    kind: flag,
    env: "CONFIG_GRPC_XDS_SERVER_USE_TLS",
    default: "false",
    help: "Uses TLS with the xDS server.",
  },
  xdsClientTlsCert: {
    kind: pemFile,
    env: "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
    help: "Client certificate for the xDS server.",
  },
  xdsClientTlsKey: { kind: pemFile, env: "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", help: "Key of that certificate." },
  xdsServerTlsCaCert: {
    kind: pemFile,
    env: "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
    help: "Authorities for the xDS server's certificate, in place of the system's.",
  },
  xdsServerTlsSan: {
    kind: optional(text("NAME", "a subject alternative name")),
    env: "CONFIG_GRPC_XDS_SERVER_TLS_SAN",
    help: "Subject alternative name that the xDS server's certificate must carry, in place of its host.",
  },
  xdsBackoffInitialInterval: {
    kind: duration,
    env: "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
    default: "10s",
    help: "Pause after the xDS server ended the stream; it doubles with each further time.",
  },
  xdsBackoffMaxInterval: {
    kind: duration,
    env: "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
    default: "60s",
    help: "Longest such pause.",
  },
  xdsBackoffRandomFactor: {
    kind: decimal(0, 1),
    env: "XDS_CLIENT_BACKOFF_RANDOM_FACTOR",
    default: "0.5",
    help: "Share of the pause by which it varies at random.",
  },
  xdsBackoffJitter: {
    kind: flag,
    env: "XDS_CLIENT_BACKOFF_JITTER",
    default: "true",
    help: "Whether the pause varies.",
  },
  xdsMaxMessageBytes: {
    kind: integer(0, 2 ** 31 - 1),
    env: "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
    default: "4194304",
    help: "Largest message accepted from the xDS server, in bytes; 0 is the default.",
  },
  xdsMaxDescriptors: {
    kind: integer(1, 10_000_000),
    env: "XDS_CLIENT_MAX_DESCRIPTORS",
    default: "100000",
    help: "Descriptors of all resources of the xDS server; a configuration with more is rejected, and the last one stays. Each takes about 1 KB. envoyproxy/ratelimit has no bound.",
  },
} as const satisfies Settings;
