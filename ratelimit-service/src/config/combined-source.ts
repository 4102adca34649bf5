/**
 * Combines files with an xDS server, so that one service has the domains of a control plane, such as Envoy Gateway's,
 * and others. A domain in both is a conflict: the version of the files is served, whichever came first, and the problem
 * names both.
 */
import type { ConfigProblem } from "./config-problem.ts";
import type { ConfigSource, ConfigUpdate } from "./config-source.ts";
import type { RateLimitConfig } from "./rule.ts";

/** The two sources; the combined source starts and closes them. */
export interface CombinedSourceOptions {
  /** Files have precedence for a domain in both sources. */
  readonly files: ConfigSource;
  /** The control plane. */
  readonly xds: ConfigSource;
  /**
   * Whether one source is served before the other has its first configuration (FORCE_START_WITHOUT_INITIAL_CONFIG).
   * Until then a call for an unknown domain fails, because the other source may define it.
   */
  readonly servesInPart: boolean;
}

/** The last update of each source; absent before its first. */
interface Latest {
  files?: ConfigUpdate;
  xds?: ConfigUpdate;
}

/** Emits the combination of the latest states of both sources. */
export class CombinedSource implements ConfigSource {
  readonly #options: CombinedSourceOptions;
  readonly #latest: Latest = {};

  constructor(options: CombinedSourceOptions) {
    this.#options = options;
  }

  start(onUpdate: (update: ConfigUpdate) => void): void {
    const { files, xds, servesInPart } = this.#options;
    const take = (of: keyof Latest) => (update: ConfigUpdate) => {
      this.#latest[of] = update;
      const hasBoth = this.#latest.files !== undefined && this.#latest.xds !== undefined;
      if (hasBoth || servesInPart) onUpdate(combineUpdates(this.#latest));
    };
    files.start(take("files"));
    xds.start(take("xds"));
  }

  close(): void {
    this.#options.files.close();
    this.#options.xds.close();
  }
}

/** Merges the domains of both; files win over xDS. */
export function combineDomains(
  files: RateLimitConfig | undefined,
  xds: RateLimitConfig | undefined,
): RateLimitConfig | undefined {
  if (files === undefined && xds === undefined) return undefined;
  return {
    domains: new Map([...(xds?.domains ?? []), ...(files?.domains ?? [])]),
    ...(files === undefined ? { missing: "the files" } : {}),
    ...(xds === undefined ? { missing: "the xDS server" } : {}),
  };
}

function combineUpdates({ files, xds }: Latest): ConfigUpdate {
  const config = combineDomains(files?.config, xds?.config);
  const conflicts = conflictsOf(files, xds);
  const overruled = new Set(conflicts.map(({ resource }) => resource));
  const xdsParts = (xds?.parts ?? []).map((part) =>
    overruled.has(part.key) ? { key: part.key, state: "rejected" as const } : part,
  );
  return {
    ...(config === undefined ? {} : { config }),
    ...(xds?.xds === undefined ? {} : { xds: xds.xds }),
    ...(files?.config === undefined ? {} : { files: files.config }),
    parts: [...(files?.parts ?? []), ...xdsParts],
    problems: [...(files?.problems ?? []), ...(xds?.problems ?? []), ...conflicts],
    warnings: [...(files?.warnings ?? []), ...(xds?.warnings ?? [])],
  };
}

/** Returns one problem for each xDS resource whose domain is also in a file. */
function conflictsOf(files: ConfigUpdate | undefined, xds: ConfigUpdate | undefined): readonly ConfigProblem[] {
  const owners = new Map((files?.parts ?? []).map(({ key, domain }) => [domain, key]));
  return (xds?.parts ?? []).flatMap(({ key, domain }) => {
    const owner = domain === undefined ? undefined : owners.get(domain);
    if (owner === undefined) return [];
    return [
      {
        message: `duplicate domain '${domain}' in xDS resource`,
        resource: key,
        hint: `the file ${owner} has it and is served`,
      },
    ];
  });
}
