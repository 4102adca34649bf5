/** Sends the request of a trace to a listener of the proxy, and reads the response to its last byte. */
import { once } from "node:events";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import { connect as startTls } from "node:tls";
import { exchange } from "../admin/exchange.ts";
import type { ProxyConnector } from "../admin/proxy-connector.ts";
import { CommandError, textOf } from "../command-error.ts";
import type { TraceRequest } from "./request.ts";

/** The response as the client saw it. */
export interface ClientResponse {
  readonly status: number;
  readonly statusText: string;
  readonly bodyBytes: number;
}

/** Resolves when the body has ended. Its bytes are counted and dropped. */
export async function sendRequest(
  connector: ProxyConnector,
  port: number,
  request: TraceRequest,
  signal: AbortSignal,
): Promise<ClientResponse> {
  const { url, method, headers, body } = request;
  const attempt = `send ${method} ${url.href} to port ${port} of ${connector.name}`;
  try {
    const plain = await connector.connect(port);
    const connection = url.protocol === "https:" ? await secure(plain, request) : plain;
    const path = `${url.pathname}${url.search}`;
    const response = await exchange(connection, {
      method,
      path,
      headers,
      ...(body === undefined ? {} : { body }),
      signal,
    });
    let bodyBytes = 0;
    // A stream without an encoding yields buffers.
    for await (const chunk of response) bodyBytes += (chunk as Buffer).length;
    return { status: response.statusCode ?? 0, statusText: response.statusMessage ?? "", bodyBytes };
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const { found, advice } = describeError(textOf(error), url);
    throw new CommandError({ message: `${attempt}: ${found}`, advice, cause: error });
  }
}

async function secure(connection: Duplex, { url, trust }: TraceRequest): Promise<Duplex> {
  const host = url.hostname.replaceAll(/[[\]]/g, "");
  const tls = startTls({
    socket: connection,
    host,
    // An IP address is verified as well, but is not sent as the server name (RFC 6066 §3).
    ...(isIP(host) === 0 && { servername: host }),
    rejectUnauthorized: trust.kind !== "any",
    ...(trust.kind === "authorities" && { ca: trust.pem }),
    ALPNProtocols: ["http/1.1"],
  });
  await once(tls, "secureConnect");
  return tls;
}

/** Describes an error, with advice; OpenSSL's own messages need explanation. */
function describeError(
  text: string,
  { protocol }: URL,
): { readonly found: string; readonly advice: readonly string[] } {
  const listeners = "see which listeners there are: proxyctl config all";
  if (/certificate|altnames|self-signed/i.test(text)) {
    const advice = [
      "name the authority that has issued it, after --: --cacert FILE",
      "send it without verification of the certificate, after --: -k",
    ];
    return { found: text, advice };
  }
  if (/wrong version number|packet length|unsupported protocol/i.test(text)) {
    return {
      found: "the listener does not use TLS",
      advice: ["use an http:// URL for a plain HTTP listener", listeners],
    };
  }
  if (protocol === "http:") return { found: text, advice: [listeners, "an HTTPS listener needs an https:// URL"] };
  return { found: text, advice: [listeners] };
}
