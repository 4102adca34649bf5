/**
 * Reads a key set from its URL: one request that follows no redirect, to permitted addresses only, bounded in time and
 * bytes. A redirect could lead to an address that the writer of the policy may not reach.
 */
import { request as requestPlain } from "node:http";
import { request as requestTls } from "node:https";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { openSocket } from "../connect/open-socket.ts";
import { maxKeySetLength } from "./json-web-keys.ts";

/** The whole request takes at most this long. */
const timeoutMs = 5_000;

/** What `fetchKeySet` needs. */
export interface FetchOptions {
  /** Checks every address before a connection to it. */
  readonly addresses: AddressGuard;
  /** Ends a request that takes too long. */
  readonly clock: Clock;
}

/** Resolves with the text of a response with status 200; rejects with an `Error` that says what was found instead. */
export function fetchKeySet(uri: string, { addresses, clock }: FetchOptions): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const url = new URL(uri);
  const isTls = url.protocol === "https:";
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = url.port === "" ? (isTls ? 443 : 80) : Number(url.port);
  const target = { host, port, tls: isTls ? {} : undefined, protocol: "http/1.1", addresses } as const;
  const request = (isTls ? requestTls : requestPlain)({
    host,
    port,
    path: `${url.pathname}${url.search}`,
    headers: {
      accept: "application/jwk-set+json, application/json",
      connection: "close",
      "user-agent": "gateway-proxy",
    },
    // Without an agent, which would connect by itself.
    createConnection: () => openSocket(target, () => undefined),
  });
  const fail = (error: Error): void => {
    request.destroy();
    reject(error);
  };
  const timer = clock.setTimer(timeoutMs, () => fail(new Error(`no complete response within ${timeoutMs} ms`)));
  request.on("error", fail);
  request.on("response", (response) => {
    const { statusCode: status = 0 } = response;
    if (status !== 200) {
      fail(new Error(`status ${status}, accepted is 200; redirects are not followed`));
      return;
    }
    let body = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => {
      body += chunk;
      if (body.length > maxKeySetLength) fail(new Error(`more than ${maxKeySetLength} characters`));
    });
    response.on("error", fail);
    response.on("end", () => {
      if (response.complete) resolve(body);
      else fail(new Error("the response ended early"));
    });
  });
  request.end();
  return promise.finally(() => timer.cancel());
}
