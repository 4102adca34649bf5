/** A proxy process with one route to a backend of the test, for tests of its admin server. */
import { request as httpRequest } from "node:http";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "./gateway.ts";
import { freePort } from "./free-port.ts";
import { type ProxyProcess, startProxy } from "./proxy-process.ts";

export interface AdminProxy {
  readonly proxy: ProxyProcess;
  /** The URL of its listener. */
  readonly url: string;
}

/** Starts the proxy with two workers on a route `r` to the backend, and `more` manifests. */
export async function startAdminProxy(
  backendPort: number,
  more: readonly string[] = [],
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<AdminProxy> {
  const port = await freePort();
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const all = manifests(gatewayManifest(port), backendManifest("b", backendPort), route, ...more);
  const proxy = await startProxy({ "all.yaml": all }, ["--workers", "2", ...args], env);
  return { proxy, url: `http://127.0.0.1:${port}` };
}

export interface AdminResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly text: string;
}

/** Sends a request with headers that `fetch` does not permit, such as `host`. */
export function sendToAdmin(
  url: string,
  { method = "GET", headers = {} }: { readonly method?: string; readonly headers?: Record<string, string> } = {},
): Promise<AdminResponse> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { method, headers, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
    });
    request.on("error", reject);
    request.end();
  });
}
