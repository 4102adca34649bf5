/**
 * Bytes of HTTP/1 clients against a gateway. The backend receives exactly the requests that a strict reader finds, in
 * that order, each with one response. A rejected request ends the connection, and nothing after it is processed.
 */
import { connect } from "node:net";
import { expect } from "vitest";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../../support/gateway.ts";
import { startRawServer } from "../../support/raw-backend.ts";
import { mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";
import { clientRequests, http1Tokens } from "../support/http1-seeds.ts";
import { perTest } from "../support/per-test.ts";
import {
  type Reading,
  readRequests,
  readResponses,
  type StrictRequest,
  type StrictResponse,
} from "../support/strict-http1.ts";

interface World {
  readonly url: URL;
  /** The requests that the backend received, in order. */
  readonly received: StrictRequest[];
  /** Resolves when the gateway has closed every connection of a client. */
  readonly idle: () => Promise<void>;
  /** Bytes on a connection to the backend that a strict reader rejects. */
  readonly faults: string[];
}

const world = perTest(async (): Promise<World> => {
  const received: StrictRequest[] = [];
  const faults: string[] = [];
  const port = await startRawServer((socket) => {
    let text = "";
    let taken = 0;
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      const { messages, rest } = readRequests(text);
      if (rest === "invalid") faults.push(text);
      for (const request of messages.slice(taken)) {
        received.push(request);
        const body = request.method === "HEAD" ? "" : request.target;
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${request.target.length}\r\n\r\n${body}`, "latin1");
      }
      taken = messages.length;
    });
  });
  const gateway = await startGateway(
    manifests(gatewayManifest(), backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`])),
  );
  const isIdle = () => gateway.dataPlane.tasks().every(({ detail }) => detail?.["connections"] === 0);
  const idle = async () => {
    while (!isIdle()) await new Promise((resolve) => setTimeout(resolve, 1));
  };
  return { url: new URL(gateway.url()), received, faults, idle };
});

const unread: Reading<StrictResponse> = { messages: [], rest: "invalid" };

/** In place of a response that did not arrive. */
const cutOff: StrictResponse = { status: 0, body: "", isLast: true };

let canaries = 0;

/** After this time without bytes the gateway is assumed to wait for the rest of a request. */
const quietMs = 80;

/** Sends and reads until the response to the canary, the end of the connection, or silence. */
function exchange(url: URL, text: string, canary: string): Promise<string> {
  return new Promise((resolve) => {
    let response = "";
    const socket = connect(Number(url.port), url.hostname, () => socket.write(text, "latin1"));
    const end = (): void => {
      socket.destroy();
      resolve(response);
    };
    socket.setTimeout(quietMs, end);
    socket.on("data", (chunk: Buffer) => {
      response += chunk.toString("latin1");
      if (response.endsWith(canary)) end();
    });
    socket.on("error", () => undefined);
    socket.on("close", end);
  });
}

fuzz("http1-requests", {
  prepare: world,
  // Bytes that begin as HTTP/2 belong to another fuzzer.
  arbitrary: mutated(clientRequests, http1Tokens).filter((text) => !text.startsWith("PRI")),
  async check(text) {
    const { url, received, faults, idle } = await world();
    await idle();
    const before = received.length;
    const canary = `/canary-${++canaries}`;
    // The host distinguishes requests of this case from late ones of an earlier case.
    const host = `c${canaries}.test`;
    const whole = `${text}GET ${canary} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n`;
    const sent = whole.replaceAll("a.test", host);
    const strict = readRequests(sent);
    const response = await exchange(url, sent, canary);
    const got = received.slice(before).filter((request) => request.host === host || !/^c\d+\.test$/.test(request.host));
    expect(faults).toEqual([]);

    // A local reply to a malformed HEAD has no body either; strictly it is no HEAD.
    const readings = [false, true].map((isHead) =>
      readResponses(response, (index) => (strict.messages[index]?.method ?? (isHead ? "HEAD" : "")) === "HEAD"),
    );
    const [responses = unread] = readings.toSorted(
      (a, b) => Number(b.rest === "nothing") - Number(a.rest === "nothing"),
    );
    expect(responses.rest).toBe("nothing");
    if (!mayBeSwitched(text)) {
      // The backend received what was sent, except for requests with a local reply, such as 404. The last rejection may
      // replace the response to a request in progress: node:http writes it as soon as it reads a malformed head, and
      // ends the connection.
      const own = responses.messages.filter(({ status, isLast }) => status !== 200 && !isLast);
      const isOwn = (index: number): boolean => own.includes(responses.messages[index] ?? cutOff);
      const forwarded = strict.messages.filter((_, index) => !isOwn(index));
      expect(got.map(essence)).toEqual(forwarded.slice(0, got.length).map(essence));
      expect(got.length).toBeGreaterThanOrEqual(responses.messages.filter(({ status }) => status === 200).length);
    }
    // Every rejection ends the connection: it is the last response.
    const rejection = responses.messages.findIndex(({ status, isLast }) => status >= 400 && isLast);
    if (rejection !== -1) {
      expect(responses.messages).toHaveLength(rejection + 1);
      expect(got.some(({ target }) => target === canary)).toBe(false);
    }
  },
});

/** Bytes after a switch of protocols are no requests. */
function mayBeSwitched(text: string): boolean {
  return /upgrade|connect /i.test(text);
}

function essence({ method, body }: StrictRequest): { readonly method: string; readonly body: string } {
  return { method, body };
}
