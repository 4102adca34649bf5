/** The two small HTTP servers beside the data path: metrics for Prometheus and readiness for a probe. */
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { ConnectionShares } from "@gatewayproxy/runtime/connection-shares";
import { oneRequestAtATime } from "@gatewayproxy/runtime/one-request-at-a-time";
import { paced } from "@gatewayproxy/runtime/paced";
import type { SocketAddress } from "@gatewayproxy/runtime/setting-kinds";

/** Scrapers and probes have one each. */
const maxConnections = 256;
/** Whoever connects sends a request of a few lines. */
const requestTimeoutMs = 10_000;

export interface PageServer {
  /** Where it listens; tells what port 0 became. */
  readonly address: SocketAddress;
  close(): Promise<void>;
}

export interface Page {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/**
 * Serves one page by GET and HEAD: another path is 404 and names the right one, another method 405 (RFC 9110 §15.5.6). All
 * who ask share the renderings, which take a quarter of the thread at most: its other work does not wait for clients.
 * Rejects with Node's error when the address cannot be listened on.
 */
export async function openPageServer(
  address: SocketAddress,
  path: string,
  render: () => Promise<Page>,
  clock: Clock,
): Promise<PageServer> {
  const renderPaced = paced(render, clock);
  const serve: RequestListener = (request, response) => {
    const pathname = (request.url ?? "").split("?", 1)[0];
    if (pathname !== path) {
      response.writeHead(404, { "content-type": "text/plain" }).end(`not found; try ${path}\n`);
    } else if (request.method !== "GET" && request.method !== "HEAD") {
      response.writeHead(405, { "content-type": "text/plain", allow: "GET, HEAD" }).end("method not allowed\n");
    } else {
      renderPaced().then(
        (page) => response.writeHead(page.status, { "content-type": page.contentType }).end(page.body),
        () => response.writeHead(500, { "content-type": "text/plain" }).end("could not be rendered\n"),
      );
    }
  };
  const timeouts = { headersTimeout: requestTimeoutMs, requestTimeout: requestTimeoutMs };
  const server = createServer({ ...timeouts, connectionsCheckingInterval: requestTimeoutMs }, oneRequestAtATime(serve));
  const shares = new ConnectionShares(maxConnections);
  server.on("connection", (socket: Socket) => shares.admit(socket));
  await listen(server, address);
  const { address: host, port } = server.address() as AddressInfo; // a TCP server that listens has one
  return { address: { host, port }, close: () => close(server) };
}

function listen(server: Server, { host, port }: SocketAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port }, resolve);
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
