/** The verbs of the API server on single objects. Error responses are thrown as `ApiFailure`. */
import { ApiFailure, failureOfResponse } from "./api-failure.ts";
import type { ApiRequest, ClusterConnection } from "./connection.ts";
import { isObject, type KubeObject } from "./object.ts";

/** A kind as in URL paths: `apps/v1` and `deployments`. */
export interface ResourceType {
  readonly apiVersion: string;
  readonly plural: string;
}

/** Returns the path of a collection (of all namespaces or of one), or of an object if `name` is given. */
export function resourcePath({ apiVersion, plural }: ResourceType, namespace?: string, name?: string): string {
  const root = apiVersion.includes("/") ? "/apis" : "/api";
  const parts = [root, apiVersion, ...(namespace === undefined ? [] : ["namespaces", namespace]), plural];
  return (name === undefined ? parts : [...parts, segmentOf(name)]).join("/");
}

/**
 * Names of Roles and bindings may have any character except `/` and `%`. A URL takes a backslash for a slash, and `?`
 * for the end of the path.
 */
function segmentOf(name: string): string {
  return encodeURIComponent(name).replaceAll("%3A", ":");
}

/** Options of server-side apply. */
export interface ApplyOptions {
  /** The field manager. Fields that it applied before and does not apply now are removed. */
  readonly fieldManager: string;
}

/** Options of a `KubeApi`. */
export interface KubeApiOptions {
  /** Idle timeout of a request, in ms; by default that of the connection. */
  readonly silenceMs?: number;
  /**
   * Called when a request that changes something is about to be sent, which fails if it returns false. A change that
   * takes several requests may have begun while this replica was the leader. Default: each may be sent.
   */
  readonly mayWrite?: () => boolean;
}

/** Requests for single objects. */
export class KubeApi {
  readonly #connection: ClusterConnection;
  readonly #options: KubeApiOptions;

  /** Creates a client. */
  constructor(connection: ClusterConnection, options: KubeApiOptions = {}) {
    this.#connection = connection;
    this.#options = options;
  }

  /** Reads an object; undefined if it does not exist. */
  async get(path: string): Promise<KubeObject | undefined> {
    try {
      return await this.#call({ path });
    } catch (error) {
      if (error instanceof ApiFailure && error.status === 404) return undefined;
      throw error;
    }
  }

  /** Creates an object in the collection `path`; 409 if it exists. */
  create(path: string, body: KubeObject): Promise<KubeObject> {
    return this.#call({ method: "POST", path, body });
  }

  /** Replaces an object; 409 if its `metadata.resourceVersion` is not the newest. */
  replace(path: string, body: KubeObject): Promise<KubeObject> {
    return this.#call({ method: "PUT", path, body });
  }

  /** Applies a merge patch (RFC 7386); 409 if the patch has a `metadata.resourceVersion` that is not the newest. */
  merge(path: string, body: KubeObject): Promise<KubeObject> {
    return this.#call({ method: "PATCH", path, body, contentType: "application/merge-patch+json" });
  }

  /** Applies an object by server-side apply with force: creates it, or takes over the fields from other managers. */
  apply(path: string, body: KubeObject, { fieldManager }: ApplyOptions): Promise<KubeObject> {
    const query = { fieldManager, force: "true" };
    return this.#call({ method: "PATCH", path, query, body, contentType: "application/apply-patch+yaml" });
  }

  /** Deletes an object if it has the `uid`; succeeds if the object does not exist or has another uid. */
  async delete(path: string, uid: string): Promise<void> {
    try {
      await this.#call({ method: "DELETE", path, body: { preconditions: { uid }, propagationPolicy: "Background" } });
    } catch (error) {
      if (error instanceof ApiFailure && (error.status === 404 || error.status === 409)) return;
      throw error;
    }
  }

  async #call(request: ApiRequest): Promise<KubeObject> {
    const { silenceMs, mayWrite } = this.#options;
    const { status, headers, json } = await this.#connection.requestJson({
      ...request,
      ...(silenceMs !== undefined && { silenceMs }),
      ...(request.method !== undefined && mayWrite !== undefined && { maySend: mayWrite }),
    });
    if (status < 200 || status > 299) throw failureOfResponse(status, headers, json);
    if (!isObject(json)) throw new ApiFailure(status, "the body of the API server's response is not an object");
    return json;
  }
}
