/** The verbs of the API server on single objects. Whatever it refuses is thrown as an `ApiFailure`. */
import { ApiFailure, failureOf } from "./api-failure.ts";
import type { ApiRequest, ClusterConnection } from "./connection.ts";
import { isObject, type KubeObject } from "./object.ts";

/** Which kind of object, as paths name it: `apps/v1` and `deployments`. */
export interface ResourceType {
  readonly apiVersion: string;
  readonly plural: string;
}

/** Where objects of a type are; all of them without a namespace, one with a name. */
export function resourcePath({ apiVersion, plural }: ResourceType, namespace?: string, name?: string): string {
  const root = apiVersion.includes("/") ? "/apis" : "/api";
  const parts = [root, apiVersion, ...(namespace === undefined ? [] : ["namespaces", namespace]), plural];
  return (name === undefined ? parts : [...parts, name]).join("/");
}

export interface ApplyOptions {
  /** The author of the fields (server-side apply). Fields that it applied before and not now are removed. */
  readonly fieldManager: string;
}

export class KubeApi {
  readonly #connection: ClusterConnection;
  readonly #silenceMs: number | undefined;

  /** @param silenceMs of the server, after which a request has failed; by default that of the connection. */
  constructor(connection: ClusterConnection, silenceMs?: number) {
    this.#connection = connection;
    this.#silenceMs = silenceMs;
  }

  /** Undefined where there is no such object. */
  async get(path: string): Promise<KubeObject | undefined> {
    try {
      return await this.#call({ path });
    } catch (error) {
      if (error instanceof ApiFailure && error.status === 404) return undefined;
      throw error;
    }
  }

  /** Creates; 409 where it is there. `path` is that of the collection. */
  create(path: string, body: KubeObject): Promise<KubeObject> {
    return this.#call({ method: "POST", path, body });
  }

  /** Replaces; 409 where its `metadata.resourceVersion` is not the newest. */
  replace(path: string, body: KubeObject): Promise<KubeObject> {
    return this.#call({ method: "PUT", path, body });
  }

  /** Merges by RFC 7386; 409 where the patch has a `metadata.resourceVersion` that is not the newest. */
  merge(path: string, body: KubeObject): Promise<KubeObject> {
    return this.#call({ method: "PATCH", path, body, contentType: "application/merge-patch+json" });
  }

  /** Creates or changes our fields of an object, taking them from whoever else claims them. */
  apply(path: string, body: KubeObject, { fieldManager }: ApplyOptions): Promise<KubeObject> {
    const query = { fieldManager, force: "true" };
    return this.#call({ method: "PATCH", path, query, body, contentType: "application/apply-patch+yaml" });
  }

  /** Deletes, as long as it is the object that was seen; one that is gone already is no failure. */
  async delete(path: string, uid: string): Promise<void> {
    try {
      await this.#call({ method: "DELETE", path, body: { preconditions: { uid }, propagationPolicy: "Background" } });
    } catch (error) {
      if (error instanceof ApiFailure && (error.status === 404 || error.status === 409)) return;
      throw error;
    }
  }

  async #call(request: ApiRequest): Promise<KubeObject> {
    const silenceMs = this.#silenceMs;
    const timed = silenceMs === undefined ? request : { ...request, silenceMs };
    const { status, headers, json } = await this.#connection.requestJson(timed);
    if (status < 200 || status > 299) throw failureOf(status, headers, json);
    if (!isObject(json)) throw new ApiFailure(status, "the API server answered with no object");
    return json;
  }
}
