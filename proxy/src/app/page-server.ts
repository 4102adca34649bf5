/** HTTP servers for operators that serve one page each: metrics for Prometheus, or readiness for a probe. */
import type { RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createBoundedServer } from "@gatewayproxy/runtime/bounded-http-server";
import { withinOpenFiles } from "@gatewayproxy/runtime/open-files";
import type { SocketAddress } from "@gatewayproxy/runtime/setting-kinds";

/** Scrapers and probes use one connection each. */
const maxConnections = 256;
/** And of the limit of open files. */
const openFilePart = 1 / 32;
/** A client must send its request, which is a few lines, within this time. */
const requestTimeoutMs = 10_000;

/** An open HTTP server of one page. */
export interface PageServer {
  /** The listening address; the port is the real one if port 0 was requested. */
  readonly address: SocketAddress;
  close(): Promise<void>;
}

/** The response to a GET of the page. */
export interface Page {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | Buffer;
}

/**
 * Serves one page by GET and HEAD. Other paths get a 404 that contains the path of the page, other methods a 405 (RFC
 * 9110 §15.5.6).
 *
 * @param render renders the page for the field `accept` of a request. It must bound its share of the thread's time, as
 *   `throttle` does.
 * @throws Node's error if the address cannot be listened on.
 */
export async function openPageServer(
  address: SocketAddress,
  path: string,
  render: (accept: string | undefined) => Promise<Page>,
): Promise<PageServer> {
  const serve: RequestListener = (request, response) => {
    const pathname = (request.url ?? "").split("?", 1)[0];
    if (pathname !== path) {
      response.writeHead(404, { "content-type": "text/plain" }).end(`not found; try ${path}\n`);
    } else if (request.method !== "GET" && request.method !== "HEAD") {
      response.writeHead(405, { "content-type": "text/plain", allow: "GET, HEAD" }).end("method not allowed\n");
    } else {
      render(request.headers.accept).then(
        (page) => response.writeHead(page.status, { "content-type": page.contentType }).end(page.body),
        () => response.writeHead(500, { "content-type": "text/plain" }).end("the page could not be rendered\n"),
      );
    }
  };
  const timeouts = {
    headersTimeout: requestTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: requestTimeoutMs,
  };
  const server = createBoundedServer(
    { ...timeouts, maxConnections: withinOpenFiles(maxConnections, openFilePart) },
    serve,
  );
  await listen(server, address);
  const { address: host, port } = server.address() as AddressInfo; // A listening TCP server has such an address.
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
