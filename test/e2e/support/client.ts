/** A client of Gateways: each request has its own connection, so that requests spread over the replicas. */
import { request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";

/** The port of this machine that kind-config.yaml maps for the tests, and the node port behind it. */
export const testPort = { host: 18_081, node: 30_081 } as const;
/** The same for the examples of kind-up.sh. */
export const examplePort = 8_888;

export interface TestResponse {
  /** 0 if the connection broke before a response. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export interface TestRequest {
  readonly path?: string;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON by POST; without it the request is a GET. */
  readonly body?: unknown;
  readonly port?: number;
}

/** Sends one request and reads the whole response; never rejects. */
export function send({
  path = "/",
  host = "e2e.example",
  headers = {},
  body,
  port = testPort.host,
}: TestRequest = {}): Promise<TestResponse> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve) => {
    const fail = (error: Error): void => resolve({ status: 0, headers: {}, body: error.message });
    const sent = request({
      host: "127.0.0.1",
      port,
      path,
      method: text === undefined ? "GET" : "POST",
      agent: false,
      timeout: 10_000,
      headers: { host, ...(text !== undefined && { "content-type": "application/json" }), ...headers },
    });
    sent.on("error", fail);
    sent.on("timeout", () => sent.destroy(new Error("no response within 10 s")));
    sent.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", fail);
      response.on("end", () => {
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString(),
        });
      });
    });
    sent.end(text);
  });
}

/** Sends the same request `count` times, `width` at once, and resolves with all responses. */
export async function sendMany(count: number, testRequest: TestRequest, width = 4): Promise<readonly TestResponse[]> {
  const responses: TestResponse[] = [];
  let left = count;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      responses.push(await send(testRequest));
    }
  };
  await Promise.all(Array.from({ length: width }, lane));
  return responses;
}

/**
 * Sends the same request until `denials` responses in a row are 429, so that every replica must have denied one, and
 * resolves with the responses that have the headers of a limit. Responses from before a replica had the policy are left
 * out, so no wait for the policy is needed before.
 */
export async function sendUntilDenied(
  testRequest: TestRequest,
  { denials = 60, width = 4 } = {},
): Promise<readonly TestResponse[]> {
  const governed: TestResponse[] = [];
  const deadline = performance.now() + 30_000;
  let inRow = 0;
  while (inRow < denials) {
    if (performance.now() > deadline) {
      throw new Error(`no ${denials} denials in a row within 30 s: ${JSON.stringify(tally(governed))}`);
    }
    for (const response of await sendMany(width, testRequest, width)) {
      inRow = response.status === 429 ? inRow + 1 : 0;
      if (response.status !== 200 || "x-ratelimit-limit" in response.headers) governed.push(response);
    }
  }
  return governed;
}

/** The failures among responses of which some may be denials: one line for each, with its body. */
export function failuresOf(responses: readonly TestResponse[]): readonly string[] {
  return responses
    .filter(({ status }) => status !== 200 && status !== 429)
    .map(({ status, body }) => `${status} ${body}`);
}

/** The number of responses with each status. */
export function tally(responses: readonly TestResponse[]): Readonly<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** A load of requests until it is stopped. */
export interface Load extends AsyncDisposable {
  /** Ends it, and resolves with all responses. */
  stop(): Promise<readonly TestResponse[]>;
}

/**
 * Pause of a lane after each response: the tests are about starting pods, which need the CPU of this machine as well.
 */
const loadPauseMs = 50;

/** Sends requests, two at once and at most 40 a second, until it is stopped or disposed of. */
export function startLoad(testRequest: TestRequest): Load {
  const responses: TestResponse[] = [];
  let isStopped = false;
  const lane = async (): Promise<void> => {
    while (!isStopped) {
      responses.push(await send(testRequest));
      await delay(loadPauseMs);
    }
  };
  const lanes = Promise.all([lane(), lane()]);
  const stop = async (): Promise<readonly TestResponse[]> => {
    isStopped = true;
    await lanes;
    return responses;
  };
  const dispose = async (): Promise<void> => {
    await stop();
  };
  return { stop, [Symbol.asyncDispose]: dispose };
}
