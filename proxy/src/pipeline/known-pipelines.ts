/**
 * Keeps the pipelines of rules from one snapshot to the next. An unchanged rule is the same object (`ReceivedParts`),
 * and a change of one route among thousands must not compile the others again.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Backend, BackendKey, ObjectName, Route, RouteRule } from "../ir/snapshot.ts";
import type { BackendHandle } from "../upstream/backend-handle.ts";
import type { Pipeline } from "./stages.ts";

interface KnownPipeline {
  readonly gateway: string;
  readonly route: string;
  /** Of the only reference of the rule; undefined for a rule without references, or with an unknown backend. */
  readonly backend: BackendHandle | undefined;
  /** The settings of a Backend, which the pipeline has; undefined for a Service. */
  readonly settings: Backend | undefined;
  readonly pipeline: Pipeline;
}

/** The pipelines of rules that depend on nothing but themselves and one backend. */
export class KnownPipelines {
  readonly #known = new WeakMap<RouteRule, KnownPipeline>();
  /** The handles with which the pipelines of a page of routes were found to be the same. */
  readonly #kept = new WeakMap<readonly Route[], ReadonlyMap<BackendKey, BackendHandle>>();

  /**
   * Returns the pipeline of a rule.
   *
   * @param backends the handles of the snapshot.
   * @param compile compiles the rule if it has to be.
   */
  of(
    { namespace, name }: ObjectName,
    route: Route,
    rule: RouteRule,
    backends: ReadonlyMap<BackendKey, BackendHandle>,
    compile: () => Pipeline,
  ): Pipeline {
    const backend = backendOf(rule, backends);
    if (!isPlain(rule, backend)) return compile();
    const gateway = objectKey({ namespace, name });
    const known = this.#known.get(rule);
    if (known?.gateway === gateway && known.route === route.key && isOf(known, backend)) return known.pipeline;
    const pipeline = compile();
    this.#known.set(rule, { gateway, route: route.key, backend, settings: settingsOf(backend), pipeline });
    return pipeline;
  }

  /**
   * Whether the pipelines of a page of routes that were compiled before, for the same Gateway, are the same with these
   * handles (`Backends.handles`).
   */
  areKept(routes: readonly Route[], backends: ReadonlyMap<BackendKey, BackendHandle>): boolean {
    if (this.#kept.get(routes) === backends) return true;
    const areKept = routes.every(({ rules }) => rules.every((rule) => this.#isKept(rule, backends)));
    if (areKept) this.#kept.set(routes, backends);
    return areKept;
  }

  #isKept(rule: RouteRule, backends: ReadonlyMap<BackendKey, BackendHandle>): boolean {
    const known = this.#known.get(rule);
    return known !== undefined && isOf(known, backendOf(rule, backends));
  }
}

/** Returns the handle of the first reference of a rule. */
function backendOf(
  { backendRefs: [ref] }: RouteRule,
  backends: ReadonlyMap<BackendKey, BackendHandle>,
): BackendHandle | undefined {
  return ref?.kind === "backend" ? backends.get(ref.backend) : undefined;
}

/** Whether a pipeline was compiled with a backend, and with its present settings. */
function isOf(known: KnownPipeline, backend: BackendHandle | undefined): boolean {
  return known.backend === backend && known.settings === settingsOf(backend);
}

/**
 * Returns what a pipeline has of a backend. The endpoints of a Service change frequently, and are those of its handle.
 */
function settingsOf(backend: BackendHandle | undefined): Backend | undefined {
  return backend === undefined || backend.backend.kind === "Service" ? undefined : backend.backend;
}

/**
 * Whether the pipeline of a rule has no state of a snapshot: no position in a weighted choice, no key sets, no gates of
 * rate limit services, and no other backends for failover.
 */
function isPlain(
  { backendRefs, filters, authentication, globalLimits }: RouteRule,
  backend: BackendHandle | undefined,
) {
  if (authentication !== undefined || globalLimits !== undefined || backendRefs.length > 1) return false;
  if (backend?.backend.failover !== undefined) return false;
  const all = [...filters, ...backendRefs.flatMap((ref) => (ref.kind === "backend" ? ref.filters : []))];
  return all.every(({ kind }) => kind !== "RequestMirror");
}
