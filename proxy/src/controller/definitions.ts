/**
 * The CustomResourceDefinitions of a cluster: their versions of the Gateway API, and the fields that they declare. A
 * cluster may have any bundle of the Gateway API, older or newer than the one that this controller is tested with.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { gatewayGroup } from "../api/names.ts";
import { kinds } from "../api/resource.ts";
import type { GatewayClassCondition } from "../api/status.ts";
import type { ClusterConnection } from "../kube/connection.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../kube/object.ts";
import type { ObjectWatch } from "../kube/object-watch.ts";
import { watchObjects } from "../kube/watch.ts";
import { definitionName, type WholeKind } from "../source/kubernetes/watched-kinds.ts";
import { declaredPart } from "../status/declared-part.ts";

/** The oldest and the newest minor version of the Gateway API with which the controller works: 1.1 to 1.7. */
export const supportedMinors = { oldest: 1, newest: 7 } as const;

/** The kinds whose definitions are read: those of CustomResourceDefinitions. */
export const definedKinds = [
  "GatewayClass",
  "Gateway",
  "ListenerSet",
  "HTTPRoute",
  "GRPCRoute",
  "TLSRoute",
  "TCPRoute",
  "UDPRoute",
  "ReferenceGrant",
  "BackendTLSPolicy",
  "ProxyPolicy",
  "Backend",
] as const satisfies readonly WholeKind[];

/** A kind of `definedKinds`. */
export type DefinedKind = (typeof definedKinds)[number];

/** The part of a CustomResourceDefinition that the controller needs. */
export interface Definition {
  /** The annotation `bundle-version` of the Gateway API, such as `v1.6.3`; undefined where it is absent. */
  readonly bundleVersion: string | undefined;
  /** The annotation `channel`: `standard` or `experimental`; undefined where it is absent. */
  readonly channel: string | undefined;
  /** The served versions, such as `v1`. */
  readonly versions: readonly string[];
  /** The schemas of `spec` and `status` in the version that the controller writes; empty where it is not served. */
  readonly spec: KubeObject;
  readonly status: KubeObject;
}

/** The definitions that exist, by kind. */
export type Definitions = ReadonlyMap<DefinedKind, Definition>;

/** Reads a CustomResourceDefinition (`apiextensions.k8s.io/v1`) of a kind. */
export function readDefinition(kind: DefinedKind, { metadata, spec }: KubeObject): Definition {
  const annotations = fieldsOf(fieldsOf(metadata)["annotations"]);
  const annotation = (name: string) => textOf(annotations[`${gatewayGroup}/${name}`]) || undefined;
  const served = objectsOf(fieldsOf(spec)["versions"]).filter((version) => version["served"] === true);
  const written = served.find(({ name }) => name === kinds[kind].versions[0]);
  const { properties } = fieldsOf(fieldsOf(written?.["schema"])["openAPIV3Schema"]);
  return {
    bundleVersion: annotation("bundle-version"),
    channel: annotation("channel"),
    versions: served.map(({ name }) => textOf(name)),
    spec: fieldsOf(fieldsOf(properties)["spec"]),
    status: fieldsOf(fieldsOf(properties)["status"]),
  };
}

/**
 * Returns the condition `SupportedVersion` of a class (Gateway API `GatewayClassConditionType`); undefined if no
 * definition of the Gateway API can be read. A bundle of another version is served as far as possible.
 */
export function supportedVersion(definitions: Definitions): GatewayClassCondition | undefined {
  const ofGatewayApi = [...definitions].filter(([kind]) => kinds[kind].group === gatewayGroup);
  if (ofGatewayApi.length === 0) return undefined;
  const kindsByVersion = Map.groupBy(ofGatewayApi, ([, { bundleVersion = "unknown" }]) => bundleVersion);
  const unsupported = [...kindsByVersion.keys()].filter((version) => !isSupported(version));
  const { oldest, newest } = supportedMinors;
  if (unsupported.length === 0) {
    const message = `the definitions of the Gateway API have the version ${[...kindsByVersion.keys()].sort().join(", ")}`;
    return { type: "SupportedVersion", status: "True", reason: "SupportedVersion", message };
  }
  const found = unsupported
    .sort()
    .map((version) => `${version} (${(kindsByVersion.get(version) ?? []).map(([kind]) => kind).join(", ")})`);
  return {
    ...{ type: "SupportedVersion", status: "False", reason: "UnsupportedVersion" },
    message: `the definitions of the Gateway API have the version ${found.join(" and ")}; supported are 1.${oldest} to 1.${newest}`,
  };
}

function isSupported(bundleVersion: string): boolean {
  const minor = Number(/^v1\.(\d+)\.\d/.exec(bundleVersion)?.[1]);
  return minor >= supportedMinors.oldest && minor <= supportedMinors.newest;
}

/**
 * Returns what clients or backends are not protected by under these definitions, one sentence each. The API server
 * drops undeclared fields without an error. Only the managed fields of objects that had them before still name them.
 */
export function missingProtection(definitions: Definitions): readonly string[] {
  const tls = fieldsOf(fieldsOf(fieldsOf(definitions.get("Gateway")?.spec["properties"])["tls"])["properties"]);
  const lacks = (field: string) => definitions.has("Gateway") && tls[field] === undefined;
  const policy = definitions.get("BackendTLSPolicy");
  const [policyVersion] = kinds.BackendTLSPolicy.versions;
  return [
    ...(lacks("frontend")
      ? ["the definition of Gateway has no field spec.tls.frontend: no client certificate is required"]
      : []),
    ...(lacks("backend")
      ? ["the definition of Gateway has no field spec.tls.backend: backends get no client certificate"]
      : []),
    ...(policy !== undefined && !policy.versions.includes(policyVersion)
      ? [
          `the definition of BackendTLSPolicy has the versions ${policy.versions.join(", ")} and not ${policyVersion}: no BackendTLSPolicy is applied`,
        ]
      : []),
  ];
}

/** Collaborators of `DefinitionWatch`. */
export interface DefinitionWatchOptions {
  /** The API server. */
  readonly connection: ClusterConnection;
  /** The clock of the watches and their retries. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1, for jitter. */
  readonly random: () => number;
  /** Receives failed watches, fields that are left out, and missing protection, each once. */
  readonly log: Logger;
  /** Called when a definition has changed. */
  readonly onChange: () => void;
}

/** Watches the definitions of `definedKinds`, each by its name. */
export class DefinitionWatch {
  readonly #log: Logger;
  readonly #watches: ReadonlyMap<DefinedKind, ObjectWatch<Definition>>;
  readonly #logged = new Set<string>();

  constructor({ connection, clock, random, log, onChange }: DefinitionWatchOptions) {
    this.#log = log;
    this.#watches = new Map(
      definedKinds.map((kind) => [
        kind,
        watchObjects({
          ...{ connection, clock, random, log },
          paths: ["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"],
          selector: { fieldSelector: `metadata.name=${definitionName(kind)}` },
          read: (object) => readDefinition(kind, object),
          onChange: () => {
            this.#logMissingProtection();
            onChange();
          },
        }),
      ]),
    );
  }

  /** Whether each definition was requested, so that statuses can be reduced to declared fields. */
  get isRead(): boolean {
    return [...this.#watches.values()].every(({ state }) => state.kind !== "starting");
  }

  /** The definitions that exist and that the controller may read. */
  get current(): Definitions {
    return new Map(
      [...this.#watches].flatMap(([kind, { objects }]) => [...objects.values()].map((each) => [kind, each] as const)),
    );
  }

  /** Returns the fields of a status that its kind declares. Logs each field that is left out, once. */
  declared(kind: DefinedKind, status: KubeObject): KubeObject {
    const [definition] = this.#watches.get(kind)?.objects.values() ?? [];
    // Nothing is known of the fields of a kind whose definition cannot be read.
    if (definition === undefined || Object.keys(definition.status).length === 0) return status;
    const { value, leftOut } = declaredPart(definition.status, status);
    for (const field of leftOut) {
      const fields = { kind, field: `status.${field}`, bundleVersion: definition.bundleVersion };
      this.#logOnce(`${kind} ${field}`, () =>
        this.#log.warn(fields, "the definition of the kind does not declare a field of the status; it is left out"),
      );
    }
    return fieldsOf(value);
  }

  /** Stops watching. */
  close(): void {
    for (const watch of this.#watches.values()) watch.close();
  }

  #logMissingProtection(): void {
    for (const problem of missingProtection(this.current)) {
      this.#logOnce(problem, () => this.#log.warn({ problem }, "the definitions lack what some resources need"));
    }
  }

  #logOnce(key: string, log: () => void): void {
    if (!this.#logged.has(key)) log();
    this.#logged.add(key);
  }
}
