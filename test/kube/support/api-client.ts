/**
 * Requests to an API server. Tests read objects four times a second; a process of kubectl for each costs more than the
 * API server does.
 */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Agent, request, type RequestOptions } from "node:https";
import { json } from "node:stream/consumers";
import { KubeConfig } from "@kubernetes/client-node/dist/config.js";

/** The resources of an API server (aggregated discovery, `apidiscovery.k8s.io/v2`). */
interface Discovery {
  readonly items: readonly {
    /** Its name is the API group; absent for the core group. */
    readonly metadata: { readonly name?: string };
    /** The preferred version is the first. */
    readonly versions: readonly {
      readonly version: string;
      readonly resources?: readonly { readonly resource: string; readonly singularResource: string }[];
    }[];
  }[];
}

const discoveryType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/** The body of a response that is no object. */
interface Status {
  readonly reason?: string;
  readonly message?: string;
}

interface Resource {
  /** The path of its API version, such as `/apis/apps/v1`. */
  readonly version: string;
  readonly plural: string;
}

export class ApiClient {
  readonly #server: URL;
  /** By the singular name. */
  readonly #resources = new Map<string, Resource>();
  readonly #options: Promise<RequestOptions>;

  /** @param kubeconfig the file of an administrator. */
  constructor(kubeconfig: string) {
    const config = new KubeConfig();
    config.loadFromFile(kubeconfig);
    this.#server = new URL(config.getCurrentCluster()?.server ?? "");
    this.#options = optionsOf(config);
  }

  /**
   * Returns an object, as `kubectl get`.
   *
   * @param resource such as `gateway/web`;
   * @param namespace empty for an object of the cluster.
   */
  async get(resource: string, namespace: string): Promise<unknown> {
    const [kind = "", name = ""] = resource.split("/");
    const { version, plural } = await this.#resourceOf(kind);
    return this.send("GET", `${version}${namespace === "" ? "" : `/namespaces/${namespace}`}/${plural}/${name}`);
  }

  /** Creates a namespace. */
  async createNamespace(name: string): Promise<void> {
    await this.send("POST", "/api/v1/namespaces", { metadata: { name } });
  }

  /** Begins to delete a namespace with all its objects. */
  async deleteNamespace(name: string): Promise<void> {
    await this.send("DELETE", `/api/v1/namespaces/${name}`);
  }

  /** Resolves with the body of a response; rejects with the reason of a status that is no success. */
  async send(method: string, path: string, body?: object, accept = "application/json"): Promise<unknown> {
    const sent = request(new URL(path, this.#server), { ...(await this.#options), method });
    sent.setHeader("accept", accept).setHeader("content-type", "application/json");
    sent.end(body && JSON.stringify(body));
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    const received = await json(response);
    if (response.statusCode !== undefined && response.statusCode < 300) return received;
    const { reason = "unknown", message = "" } = received as Status;
    throw new Error(`${method} ${path}: ${String(response.statusCode)} ${reason}: ${message}`);
  }

  /** Finds a resource by its singular name. Asks the API server again if the name is not known. */
  async #resourceOf(singular: string): Promise<Resource> {
    const known = this.#resources.get(singular);
    if (known !== undefined) return known;
    for (const path of ["/apis", "/api"]) {
      const { items } = (await this.send("GET", path, undefined, discoveryType)) as Discovery;
      for (const { metadata, versions } of items) {
        const [preferred] = versions;
        for (const { resource, singularResource } of preferred?.resources ?? []) {
          const version = `${path}/${metadata.name === undefined ? "" : `${metadata.name}/`}${preferred?.version ?? ""}`;
          this.#resources.set(singularResource, { version, plural: resource });
        }
      }
    }
    const found = this.#resources.get(singular);
    if (found !== undefined) return found;
    throw new Error(`no resource ${singular}; there are ${[...this.#resources.keys()].join(", ")}`);
  }
}

async function optionsOf(config: KubeConfig): Promise<RequestOptions> {
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, headers } = options;
  return { headers, agent: new Agent({ keepAlive: true, ca, cert, key }) };
}
