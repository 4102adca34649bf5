/** TLS at the listeners of a gateway: manifests with certificates, and clients that show the details. */
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { onTestFinished } from "vitest";
import type { Certificate } from "./certificates.ts";
import type { TestGateway } from "./gateway.ts";

/** A Secret of type `kubernetes.io/tls`. */
export function tlsSecretManifest(name: string, { cert, key }: Pick<Certificate, "cert" | "key">, extra = ""): string {
  return `
apiVersion: v1
kind: Secret
metadata: { name: ${name}, namespace: default }
type: kubernetes.io/tls
data: { tls.crt: ${base64(cert)}, tls.key: ${base64(key)} }
${extra}
`;
}

/** A ConfigMap with the certificate of an authority. */
export function authorityManifest(name: string, { cert }: Pick<Certificate, "cert">): string {
  return `
apiVersion: v1
kind: ConfigMap
metadata: { name: ${name}, namespace: default }
data: { ca.crt: ${JSON.stringify(cert)} }
`;
}

/** A Gateway with these listeners as flow YAML; `spec` adds fields. */
export function tlsGatewayManifest(listeners: readonly string[], spec = "", name = "web"): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: ${name}, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  addresses: [{ type: IPAddress, value: 127.0.0.1 }]
  ${spec}
  listeners:
${listeners.map((listener) => `    - ${listener}`).join("\n")}
`;
}

/** An HTTPS listener on port 443 as flow YAML. */
export function tlsListener(name: string, secrets: readonly string[], more = ""): string {
  const refs = secrets.map((secret) => `{ name: ${secret} }`).join(", ");
  return `{ name: ${name}, port: 443, protocol: HTTPS, tls: { certificateRefs: [${refs}] }${more === "" ? "" : `, ${more}`} }`;
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

/** Opens a TLS connection; rejects with the error of the handshake, or if it is closed. */
export async function openTls(gateway: TestGateway, options: ConnectionOptions, port = 443): Promise<TLSSocket> {
  const listening = Number(new URL(gateway.url(port)).port);
  const socket = connect({ host: "127.0.0.1", port: listening, ...options });
  onTestFinished(() => void socket.destroy());
  await once(socket, "secureConnect");
  return socket;
}

export interface TlsResponse {
  readonly status: number;
  readonly body: string;
  readonly headers: IncomingMessage["headers"];
}

/** Requests `/` over HTTP/1.1 on the given connection; rejects if there is no response. */
export async function sendOn(socket: TLSSocket, host: string, path = "/"): Promise<TlsResponse> {
  const client = request({ createConnection: () => socket, path, headers: { host, connection: "keep-alive" } });
  client.end();
  const [response] = (await once(client, "response")) as [IncomingMessage];
  let body = "";
  for await (const chunk of response) body += String(chunk);
  return { status: response.statusCode ?? 0, body, headers: response.headers };
}

/** Opens a connection for `host` and requests `/`. */
export async function sendTls(
  gateway: TestGateway,
  host: string,
  options: ConnectionOptions,
  port = 443,
): Promise<TlsResponse> {
  return sendOn(await openTls(gateway, { servername: host, ...options }, port), host);
}

/** An HTTP/2 session over TLS, negotiated by ALPN. */
export async function openHttp2(
  gateway: TestGateway,
  options: ConnectionOptions,
  port = 443,
): Promise<ClientHttp2Session> {
  const socket = await openTls(gateway, { ALPNProtocols: ["h2"], ...options }, port);
  const session = connectHttp2(`https://${options.servername || "127.0.0.1"}`, { createConnection: () => socket });
  onTestFinished(() => session.destroy());
  return session;
}

/** Requests `/` over HTTP/2; resolves with the status and the body. */
export async function sendHttp2(
  session: ClientHttp2Session,
  authority: string,
  path = "/",
): Promise<{ status: number; body: string }> {
  const stream = session.request({ ":path": path, ":authority": authority });
  const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
  let body = "";
  for await (const chunk of stream) body += String(chunk);
  return { status: Number(headers[":status"]), body };
}
