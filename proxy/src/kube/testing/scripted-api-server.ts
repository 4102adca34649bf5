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
  /** Sends events of a watch; text goes as it is. */
  send(...events: readonly (object | string)[]): void;
  /** Ends the response normally. */
  end(): void;
  /** Breaks the connection. */
  cut(): void;
}

/** The server. */
export interface ScriptedApiServer {
  readonly cluster: Cluster;
  /** The next request, past or to come. */
  readonly next: () => Promise<ApiCall>;
  /** Requests that no test has taken yet. */
  readonly waiting: number;
}

export async function openScriptedApiServer(): Promise<ScriptedApiServer> {
  const calls: ApiCall[] = [];
  const takers: ((call: ApiCall) => void)[] = [];
  const server = createServer((request, response) => {
    const call = callOf(request, response);
    const taker = takers.shift();
    if (taker === undefined) calls.push(call);
    else taker(call);
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
      return call === undefined ? new Promise((resolve) => takers.push(resolve)) : Promise.resolve(call);
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

/** A ConfigMap as the API server gives it. */
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
