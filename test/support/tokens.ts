/** Issuers of JSON Web Tokens with real keys, signed by `jose`. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { onTestFinished } from "vitest";

export interface SigningKey {
  readonly kid: string;
  readonly alg: string;
  /** The public key as a member of a key set. */
  readonly jwk: Readonly<Record<string, unknown>>;
  /** Signs claims; `head` adds fields to the protected header. */
  sign(claims: JWTPayload, head?: Readonly<Record<string, unknown>>): Promise<string>;
}

/** A new key pair for an algorithm. */
export async function signingKey(alg: string, kid = `${alg}-1`): Promise<SigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return {
    kid,
    alg,
    jwk: { ...(await exportJWK(publicKey)), kid, alg, use: "sig" },
    sign: (claims, head = {}) => new SignJWT(claims).setProtectedHeader({ alg, kid, ...head }).sign(privateKey),
  };
}

/** A key set as text. */
export function keySet(...keys: readonly Pick<SigningKey, "jwk">[]): string {
  return JSON.stringify({ keys: keys.map(({ jwk }) => jwk) });
}

export interface KeyServer {
  readonly uri: string;
  /** Requests so far. */
  readonly requests: readonly string[];
  respond: RequestListener;
}

/** Serves a key set over HTTP on loopback until the test ends. */
export async function startKeyServer(respond: RequestListener): Promise<KeyServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    keyServer.respond(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const keyServer: KeyServer = {
    // A TCP server that listens has such an address.
    uri: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`,
    requests,
    respond,
  };
  return keyServer;
}

/** Responds with a key set. */
export function respondWithKeys(...keys: readonly Pick<SigningKey, "jwk">[]): RequestListener {
  return (_request, response) => response.setHeader("content-type", "application/json").end(keySet(...keys));
}
