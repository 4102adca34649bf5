/** An API server on a free port of 127.0.0.1 whose responses a test scripts, request by request. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { Cluster } from "../cluster.ts";

/** A request, and the functions that respond to it. */
export interface ApiCall {
  readonly url: URL;
  readonly isWatch: boolean;
  respond(status: number, body: unknown, headers?: Readonly<Record<string, string>>): void;
  /** Starts the response of a watch. */
  open(): void;
  /** Sends events of a watch; a string is sent unchanged. */
  send(...events: readonly (object | string)[]): void;
  /** Ends the response normally. */
  end(): void;
  /** Closes the connection without ending the response. */
  cut(): void;
}

/** The server. */
export interface ScriptedApiServer {
  readonly cluster: Cluster;
  /** Resolves with the oldest request that was not returned yet. */
  readonly next: () => Promise<ApiCall>;
  /** The number of requests that `next` has not returned yet. */
  readonly waiting: number;
}

export async function openScriptedApiServer(): Promise<ScriptedApiServer> {
  const calls: ApiCall[] = [];
  const waiters: ((call: ApiCall) => void)[] = [];
  const server = createServer((request, response) => {
    const call = callOf(request, response);
    const waiter = waiters.shift();
    if (waiter === undefined) calls.push(call);
    else waiter(call);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo; // a TCP server that listens has one
  return {
    cluster: { server: new URL(`http://127.0.0.1:${port}`), credentials: () => Promise.resolve({}) },
    next() {
      const call = calls.shift();
      return call === undefined ? new Promise((resolve) => waiters.push(resolve)) : Promise.resolve(call);
    },
    get waiting() {
      return calls.length;
    },
  };
}

function callOf(request: IncomingMessage, response: ServerResponse): ApiCall {
  const url = new URL(request.url ?? "/", "http://api");
  return {
    url,
    isWatch: url.searchParams.get("watch") === "1",
    respond(status, body, headers = {}) {
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
    },
    open() {
      response.writeHead(200, { "content-type": "application/json" });
      response.flushHeaders();
    },
    send(...events) {
      for (const event of events) response.write(typeof event === "string" ? event : `${JSON.stringify(event)}\n`);
    },
    end() {
      response.end();
    },
    cut() {
      request.socket.destroy();
    },
  };
}

/** A ConfigMap in the form of an API server's response. */
export function configMap(name: string, version: number, data: Readonly<Record<string, string>> = {}) {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { namespace: "default", name, resourceVersion: String(version) },
    data,
  };
}

/** A page of a list. */
export function listOf(version: number, items: readonly object[], next?: string) {
  return {
    apiVersion: "v1",
    kind: "ConfigMapList",
    metadata: { resourceVersion: String(version), ...(next !== undefined && { continue: next }) },
    items,
  };
}
