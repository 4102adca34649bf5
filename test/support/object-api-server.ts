/**
 * An API server that stores objects without validation. To a controller and proxies it is a cluster whose
 * CustomResourceDefinitions are older, or wider, than their own. It lists, watches, and accepts every write.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fieldsOf, isObject, type KubeObject } from "../../proxy/src/kube/object.ts";

export interface ObjectApiServer {
  /** Path of a kubeconfig. */
  readonly kubeconfig: string;
  /** Creates or replaces an object. @param collection its path over all namespaces, such as `/api/v1/services` */
  put(collection: string, object: KubeObject): void;
  /** Adds objects as a backup that is restored: watches of the collection end, and it is listed again. */
  restore(collection: string, added: readonly KubeObject[]): void;
  remove(collection: string, object: KubeObject): void;
  /** Ends the watches of this collection, and from then on responds with 500 to requests for it. */
  fail(collection: string): void;
  /** Responds with 403 to requests for this collection, until it is permitted. */
  forbid(collection: string): Forbidden;
  /** Serves another version of the kind: responds with 404 to requests for this collection, until it is permitted. */
  serveOtherwise(collection: string): Forbidden;
  /** Responds with 500 to writes of this collection, until they are permitted. @param message that of the responses */
  failWrites(collection: string, message?: string): Forbidden;
  /**
   * Neither executes writes of this collection nor responds to them until they are released.
   *
   * @param namespace Default: all.
   */
  hold(collection: string, namespace?: string): HeldWrites;
  /** The objects that requests have written, as `COLLECTION NAMESPACE/NAME`, in the order of the writes. */
  readonly written: readonly string[];
  /** The current object, with the status that was written. */
  get(collection: string, namespace: string, name: string): KubeObject | undefined;
}

/** A collection whose requests are rejected. */
export interface Forbidden {
  /** The number of rejected requests. */
  readonly rejected: number;
  permit(): void;
}

/** The writes of a collection that wait. */
export interface HeldWrites {
  /** Their number. */
  readonly waiting: number;
  /** Executes them, and all later ones. */
  release(): void;
}

interface ResourcePath {
  /** Path over all namespaces. */
  readonly collection: string;
  readonly namespace: string;
  /** Empty for the collection itself. */
  readonly name: string;
  readonly isStatus: boolean;
}

interface Change {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly collection: string;
  readonly object: KubeObject;
}

interface Selector {
  readonly field: string | null;
  readonly label: string | null;
}

interface Watcher {
  readonly target: ResourcePath;
  readonly selector: Selector;
  readonly response: ServerResponse;
}

/** Serves until the test ends. */
export async function startObjectApiServer(): Promise<ObjectApiServer> {
  const server = await openObjectApiServer();
  // Benchmarks use the server outside of tests, where this module cannot be loaded.
  const { onTestFinished } = await import("vitest");
  onTestFinished(() => server.close());
  return server;
}

/** Serves until it is closed. */
export async function openObjectApiServer(): Promise<ObjectApiServer & { close(): Promise<void> }> {
  const objects = new Map<string, KubeObject>();
  const changes: Change[] = [];
  const watchers = new Set<Watcher>();
  const failing = new Set<string>();
  /** Collections of which discovery knows another version. */
  const served = new Set<string>();
  const otherVersions = new Map<string, { rejected: number }>();
  const forbidden = new Map<string, { rejected: number }>();
  const failingWrites = new Map<string, { rejected: number; readonly message?: string | undefined }>();
  const held = new Map<
    string,
    { waiting: number; readonly namespace: string | undefined; readonly released: Promise<undefined> }
  >();
  const requested: string[] = [];
  /** The remaining objects of paged lists, by the continue token. */
  const pages = new Map<string, readonly KubeObject[]>();
  let version = 1;

  function record(type: Change["type"], collection: string, object: KubeObject): KubeObject {
    const metadata = { ...fieldsOf(object["metadata"]), resourceVersion: String(++version) };
    const stored = { ...object, metadata };
    const key = keyOf(collection, namespaceOf(stored), nameOf(stored));
    if (type === "DELETED") objects.delete(key);
    else objects.set(key, stored);
    const change = { version, type, collection, object: stored };
    changes.push(change);
    // Like the API server, which responds with 410 to watches from older versions.
    if (changes.length > 5_000) changes.splice(0, 2_500);
    for (const watcher of watchers) send(watcher, change);
    return stored;
  }

  function put(collection: string, object: KubeObject): void {
    const metadata = fieldsOf(object["metadata"]);
    const before = objects.get(keyOf(collection, namespaceOf(object), nameOf(object)));
    const known = fieldsOf(before?.["metadata"]);
    const generation = Number(known["generation"] ?? 0) + 1;
    const uid = known["uid"] ?? `uid-${version}`;
    const full = { ...object, metadata: { ...metadata, generation, uid, creationTimestamp: "2026-01-01T00:00:00Z" } };
    record(before === undefined ? "ADDED" : "MODIFIED", collection, full);
  }

  function listed({ collection, namespace }: ResourcePath, selector: Selector): readonly KubeObject[] {
    const prefix = namespace === "" ? `${collection} ` : `${collection} ${namespace}/`;
    return [...objects]
      .filter(([key, object]) => key.startsWith(prefix) && isSelected(object, selector))
      .map(([, object]) => object);
  }

  /** Status and body of the response. */
  function write(
    method: string,
    target: ResourcePath,
    body: KubeObject,
    isMerge: boolean,
  ): readonly [number, KubeObject] {
    const { collection, namespace, isStatus } = target;
    const name = target.name === "" ? nameOf(body) : target.name;
    requested.push(keyOf(collection, namespace, name));
    const before = objects.get(keyOf(collection, namespace, name));
    if (method === "POST" && before !== undefined) return [409, failure(409)];
    if (method === "DELETE") {
      return before === undefined ? [404, failure(404)] : [200, record("DELETED", collection, before)];
    }
    if (isStatus && before === undefined) return [404, failure(404)];
    const kept = isMerge ? fieldsOf(before?.["status"]) : {};
    const written = isStatus ? { status: { ...kept, ...fieldsOf(body["status"]) } } : body;
    const metadata = { ...fieldsOf(before?.["metadata"]), ...(isStatus ? {} : fieldsOf(body["metadata"])), name };
    const uid = fieldsOf(before?.["metadata"])["uid"] ?? `uid-${version}`;
    const full = { ...before, ...written, metadata: { ...metadata, ...(namespace !== "" && { namespace }), uid } };
    return [200, record(before === undefined ? "ADDED" : "MODIFIED", collection, full)];
  }

  function nextPage(rest: readonly KubeObject[]): { readonly continue?: string } {
    if (rest.length === 0) return {};
    const token = `page-${pages.size}`;
    pages.set(token, rest);
    return { continue: token };
  }

  function watch(target: ResourcePath, url: URL, response: ServerResponse): void {
    const since = Number(url.searchParams.get("resourceVersion") ?? 0);
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const watcher = { target, selector: selectorOf(url), response };
    if (since < (changes[0]?.version ?? version) - 1) {
      response.end(`${JSON.stringify({ type: "ERROR", object: failure(410) })}\n`);
      return;
    }
    for (const change of changes) if (change.version > since) send(watcher, change);
    watchers.add(watcher);
    response.on("close", () => watchers.delete(watcher));
  }

  /** Status and body of the response to anything but a watch. */
  async function handle(request: IncomingMessage, target: ResourcePath, url: URL): Promise<readonly [number, object]> {
    if (request.method !== "GET") {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
      const isMerge = request.headers["content-type"] === "application/merge-patch+json";
      return write(request.method ?? "", target, isObject(body) ? body : {}, isMerge);
    }
    if (target.name !== "") {
      const found = objects.get(keyOf(target.collection, target.namespace, target.name));
      return found === undefined ? [404, failure(404)] : [200, found];
    }
    const { searchParams } = url;
    const rest = pages.get(searchParams.get("continue") ?? "") ?? listed(target, selectorOf(url));
    const limit = Number(searchParams.get("limit") ?? rest.length);
    const metadata = { resourceVersion: String(version), ...nextPage(rest.slice(limit)) };
    return [200, { kind: "List", apiVersion: "v1", metadata, items: rest.slice(0, limit) }];
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://api");
    const target = parsePath(url.pathname);
    if (target !== undefined && request.method === "GET" && failing.has(target.collection)) {
      response.writeHead(500, { "content-type": "application/json" }).end(JSON.stringify(failure(500)));
      return;
    }
    const missing = target === undefined ? undefined : otherVersions.get(target.collection);
    if (missing !== undefined) {
      missing.rejected++;
      response.writeHead(404, { "content-type": "application/json" }).end(JSON.stringify(failure(404)));
      return;
    }
    const discovered = discoveryOf(url.pathname, served);
    if (discovered !== undefined) {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(discovered));
      return;
    }
    const denial = target === undefined ? undefined : forbidden.get(target.collection);
    if (denial !== undefined) {
      denial.rejected++;
      response.writeHead(403, { "content-type": "application/json" }).end(JSON.stringify(failure(403)));
      return;
    }
    const hold = target !== undefined && request.method !== "GET" ? held.get(target.collection) : undefined;
    if (hold !== undefined && (hold.namespace ?? target?.namespace) === target?.namespace) {
      hold.waiting++;
      await hold.released;
    }
    const failed = target !== undefined && request.method !== "GET" ? failingWrites.get(target.collection) : undefined;
    if (failed !== undefined) {
      failed.rejected++;
      const body = JSON.stringify(failure(500, failed.message));
      response.writeHead(500, { "content-type": "application/json" }).end(body);
      return;
    }
    if (target !== undefined && url.searchParams.get("watch") === "1") {
      watch(target, url, response);
      return;
    }
    const [status, body] = target === undefined ? [404, failure(404)] : await handle(request, target, url);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a listening TCP server has one
  const folder = await mkdtemp(join(tmpdir(), "object-api-"));
  const kubeconfig = join(folder, "kubeconfig");
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server: `http://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } }],
    users: [{ name: "u", user: {} }],
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    "current-context": "c",
  };
  await writeFile(kubeconfig, JSON.stringify(config));
  return {
    kubeconfig,
    async close() {
      server.closeAllConnections();
      server.close();
      await rm(folder, { recursive: true });
    },
    put,
    restore(collection, added) {
      for (const watcher of watchers) {
        if (watcher.target.collection !== collection) continue;
        watchers.delete(watcher);
        watcher.response.destroy();
      }
      for (const object of added) put(collection, object);
      changes.length = 0;
    },
    remove(collection, object) {
      const known = objects.get(keyOf(collection, namespaceOf(object), nameOf(object)));
      if (known !== undefined) record("DELETED", collection, known);
    },
    fail(collection) {
      failing.add(collection);
      for (const { target, response } of watchers) if (target.collection === collection) response.destroy();
    },
    serveOtherwise(collection) {
      served.add(collection);
      return rejectedBy(otherVersions, collection, { rejected: 0 });
    },
    forbid: (collection) => rejectedBy(forbidden, collection, { rejected: 0 }),
    failWrites: (collection, message) => rejectedBy(failingWrites, collection, { rejected: 0, message }),
    hold(collection, namespace) {
      const { promise: released, resolve } = Promise.withResolvers<undefined>();
      const hold = { waiting: 0, namespace, released };
      held.set(collection, hold);
      return {
        get waiting() {
          return hold.waiting;
        },
        release() {
          held.delete(collection);
          resolve(undefined);
        },
      };
    },
    written: requested,
    get: (collection, namespace, name) => objects.get(keyOf(collection, namespace, name)),
  };
}

/** The version of the API server, and what it serves in place of collections; undefined for any other path. */
function discoveryOf(pathname: string, served: Iterable<string>): object | undefined {
  if (pathname === "/version") return { major: "1", minor: "36" };
  for (const collection of served) {
    const [, apis = "", group = "", , plural] = collection.split("/");
    if (pathname === `/${apis}/${group}`) return { versions: [{ version: "v9" }] };
    if (pathname === `/${apis}/${group}/v9`) return { resources: [{ name: plural }] };
  }
  return undefined;
}

function rejectedBy<Denial extends { rejected: number }>(
  collections: Map<string, Denial>,
  collection: string,
  denial: Denial,
): Forbidden {
  collections.set(collection, denial);
  return {
    get rejected() {
      return denial.rejected;
    },
    permit: () => void collections.delete(collection),
  };
}

function send({ target, selector, response }: Watcher, { type, collection, object }: Change): void {
  if (collection !== target.collection) return;
  if (target.namespace !== "" && namespaceOf(object) !== target.namespace) return;
  if (isSelected(object, selector)) response.write(`${JSON.stringify({ type, object })}\n`);
}

function selectorOf({ searchParams }: URL): Selector {
  return { field: searchParams.get("fieldSelector"), label: searchParams.get("labelSelector") };
}

/** By name, and by one label with a value: the selectors of the programs. */
function isSelected(object: KubeObject, { field, label }: Selector): boolean {
  const labels = fieldsOf(fieldsOf(object["metadata"])["labels"]);
  const hasLabel = label === null || Object.entries(labels).some(([key, value]) => label === `${key}=${String(value)}`);
  return hasLabel && (field === null || field === `metadata.name=${nameOf(object)}`);
}

function keyOf(collection: string, namespace: string, name: string): string {
  return `${collection} ${namespace}/${name}`;
}

function nameOf(object: KubeObject): string {
  const { name } = fieldsOf(object["metadata"]);
  return typeof name === "string" ? name : "";
}

/** Empty for a cluster-scoped object. */
function namespaceOf(object: KubeObject): string {
  const { namespace } = fieldsOf(object["metadata"]);
  return typeof namespace === "string" ? namespace : "";
}

/** Undefined where the path is neither of an object nor of a collection. */
function parsePath(pathname: string): ResourcePath | undefined {
  const match =
    /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)(?:\/namespaces\/([^/]+)(?=\/))?\/([^/]+)(?:\/([^/]+)(\/status)?)?$/.exec(
      pathname,
    );
  if (match === null) return undefined;
  const [, root = "", namespace = "", plural = "", name = "", status] = match;
  return { collection: `${root}/${plural}`, namespace, name: decodeURIComponent(name), isStatus: status !== undefined };
}

function failure(code: number, message = `status ${code}`): KubeObject {
  return { apiVersion: "v1", kind: "Status", status: "Failure", code, message };
}
