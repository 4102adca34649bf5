/**
 * Reads a key set from its URL: one request that follows no redirect, to permitted addresses only, bounded in time and
 * bytes. A redirect could lead to an address that the writer of the policy may not reach.
 */
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { buildConnector } from "undici";
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
export async function fetchKeySet(uri: string, { addresses, clock }: FetchOptions): Promise<string> {
  const { origin, pathname, search } = new URL(uri);
  // Loaded by the first key set: it takes 5 MiB of each thread that loads it.
  const { Client } = await import("undici");
  const client = new Client(origin, { connect: guardedConnector({ addresses, clock }) });
  const late = new Error(`no complete response within ${timeoutMs} ms`);
  const timer = clock.setTimer(timeoutMs, () => void client.destroy(late));
  try {
    const { statusCode, body } = await client.request({
      method: "GET",
      path: `${pathname}${search}`,
      headers: { accept: "application/jwk-set+json, application/json", "user-agent": "gateway-proxy" },
    });
    if (statusCode !== 200) throw new Error(`status ${statusCode}, accepted is 200; redirects are not followed`);
    return await textOf(body);
  } finally {
    timer.cancel();
    await client.destroy();
  }
}

/** Connects to permitted addresses only, with the trusted certificates of this machine. */
function guardedConnector(services: FetchOptions): buildConnector.connector {
  return ({ protocol, hostname, port }, done) => {
    const isTls = protocol === "https:";
    const target = {
      host: hostname.replace(/^\[(.*)\]$/, "$1"),
      port: port === "" ? (isTls ? 443 : 80) : Number(port),
      tls: isTls ? {} : undefined,
      protocol: "http/1.1",
      ...services,
    } as const;
    const fail = (error: Error): void => done(error, null);
    const socket = openSocket(target, () => {
      socket.off("error", fail);
      done(null, socket);
    });
    socket.once("error", fail);
  };
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of body) {
    length += piece.length;
    if (length > maxKeySetLength) throw new Error(`more than ${maxKeySetLength} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}
