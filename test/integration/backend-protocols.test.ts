/** The protocol of a Service's appProtocol: HTTP/2 for kubernetes.io/h2c, HTTP/1.1 and WebSocket for all others. */
import { once } from "node:events";
import { Agent, type IncomingMessage, request as httpRequest } from "node:http";
import {
  connect,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { status } from "@grpc/grpc-js";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { type Echo, startBackend } from "../support/backend.ts";
import { gatewayManifest, manifests, routeManifest, serviceManifest, startGateway } from "../support/gateway.ts";
import { callGrpc, connectGrpc, startGrpcBackend } from "../support/grpc-backend.ts";
import { endHeaders, endStream, frame, frameType, startRawHttp2Backend } from "../support/raw-http2.ts";
import { startWebSocketBackend } from "../support/upgrades.ts";

const h2c = "appProtocol: kubernetes.io/h2c";

function serve(port: number, appProtocol: string, options?: Parameters<typeof startGateway>[1]) {
  const route = routeManifest("r", ["backendRefs: [{ name: svc, port: 80 }]"]);
  return startGateway(manifests(gatewayManifest(), serviceManifest("svc", [port], appProtocol), route), options);
}

/** An HTTP/2 server without TLS that echoes each request; `sessions` are its connections. */
async function startHttp2Backend(respond: (stream: ServerHttp2Stream, headers: object) => void = echoRequest) {
  const sessions: ServerHttp2Session[] = [];
  const server = createServer();
  server.on("session", (session) => sessions.push(session));
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    stream.on("error", () => undefined);
    respond(stream, headers);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    for (const session of sessions) session.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  // A listening TCP server has such an address.
  return { port: (server.address() as AddressInfo).port, sessions };
}

function echoRequest(stream: ServerHttp2Stream, headers: object): void {
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("end", () => {
    stream.respond({ ":status": 200 });
    stream.end(JSON.stringify({ headers, body: Buffer.concat(chunks).toString() }));
  });
}

describe("kubernetes.io/h2c", () => {
  test("the head of a request is sent before its body has begun, and the endpoint may respond then", async () => {
    const { port } = await startHttp2Backend((stream) => {
      stream.respond({ ":status": 403 });
      stream.end("early");
    });
    const gateway = await serve(port, h2c);
    const client = httpRequest(gateway.url(), { method: "POST" });
    client.on("error", () => undefined);
    onTestFinished(() => void client.destroy());
    const received = once(client, "response");
    client.flushHeaders();
    const [response] = (await received) as [IncomingMessage];
    expect([response.statusCode, await text(response)]).toEqual([403, "early"]);
  });

  test("an HTTP/1.1 request reaches the endpoint as HTTP/2, with its host, path and body", async () => {
    const { port } = await startHttp2Backend();
    const gateway = await serve(port, h2c);
    const response = await fetch(`${gateway.url()}/path?q=1`, {
      method: "POST",
      body: "hello",
      headers: { "x-a": "1" },
    });
    expect(response.status).toBe(200);
    const { headers, body } = (await response.json()) as Echo;
    expect(body).toBe("hello");
    expect(headers).toMatchObject({
      ":method": "POST",
      ":path": "/path?q=1",
      ":scheme": "http",
      ":authority": new URL(gateway.url()).host,
      "x-a": "1",
    });
    expect(headers).not.toHaveProperty("host");
  });

  test("concurrent requests share one connection", async () => {
    const { port, sessions } = await startHttp2Backend();
    const gateway = await serve(port, h2c);
    const responses = await Promise.all(Array.from({ length: 20 }, () => fetch(gateway.url())));
    expect(responses.map((response) => response.status)).toEqual(Array<number>(20).fill(200));
    expect(sessions).toHaveLength(1);
  });

  test("the proxy serves after clients reset uploads that the endpoint does not read", async () => {
    const { port } = await startHttp2Backend((stream, headers) => {
      if ((headers as Record<string, string>)[":path"] === "/ok") {
        stream.respond({ ":status": 204 }, { endStream: true });
      }
    });
    const gateway = await serve(port, h2c);
    for (let round = 0; round < 5; round++) {
      const uploads = Array.from({ length: 10 }, () => {
        const signal = AbortSignal.timeout(20);
        return fetch(gateway.url(), { method: "POST", body: Buffer.alloc(60_000), signal }).catch(() => undefined);
      });
      await Promise.all(uploads);
    }
    expect((await fetch(`${gateway.url()}/ok`)).status).toBe(204);
  });

  test("after an early response, the upload is read to its end, so that the connection can be reused", async () => {
    // `:status: 200` alone (RFC 7541 §A); the endpoint sends no WINDOW_UPDATE for the rest of the body, and no reset.
    const respond = (stream: number) => frame(frameType.headers, endHeaders | endStream, stream, Buffer.from([0x88]));
    const port = await startRawHttp2Backend((frames, socket) => {
      for (const { type, stream } of frames) if (type === frameType.headers) socket.write(respond(stream));
    });
    const gateway = await serve(port, h2c);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const upload = async () => {
      const client = httpRequest(gateway.url(), { method: "POST", agent });
      const sent = once(client.end(Buffer.alloc(10_000_000)), "finish");
      const [response] = (await once(client, "response")) as [IncomingMessage];
      await sent;
      return [response.statusCode, await text(response), client.reusedSocket];
    };
    expect(await upload()).toEqual([200, "", false]);
    expect(await upload()).toEqual([200, "", true]);
    // The test may take 5 s: undici alone would end each upload after four seconds.
  }, 5_000);

  test("the proxy serves after an endpoint sends GOAWAY during uploads that it does not read", async () => {
    const { port, sessions } = await startHttp2Backend((stream, headers) => {
      if ((headers as Record<string, string>)[":path"] === "/ok") {
        stream.respond({ ":status": 204 }, { endStream: true });
      } else {
        setTimeout(() => stream.session?.goaway(), 10);
      }
    });
    const gateway = await serve(port, h2c);
    for (let round = 0; round < 3; round++) {
      const uploads = Array.from({ length: 50 }, () => {
        const signal = AbortSignal.timeout(200);
        return fetch(gateway.url(), { method: "POST", body: Buffer.alloc(1_000_000), signal }).catch(() => undefined);
      });
      await Promise.all(uploads);
    }
    expect((await fetch(`${gateway.url()}/ok`)).status).toBe(204);
    const pendingWithoutEndpoint = (): number | undefined => {
      for (const session of sessions) session.destroy();
      return gateway.dataPlane.endpoints()[0]?.pending;
    };
    await expect.poll(pendingWithoutEndpoint).toBe(0);
  });

  test("each request to an endpoint with a closed port gets a response", async () => {
    const gateway = await serve(1, h2c);
    const statuses = async () => {
      const responses = await Promise.all(Array.from({ length: 5 }, () => fetch(gateway.url())));
      return responses.map(({ status: code }) => code);
    };
    expect(await statuses()).toEqual(Array<number>(5).fill(503));
    expect(await statuses()).toEqual(Array<number>(5).fill(503));
  });

  test("a request after the endpoint closed its connection opens another connection", async () => {
    const { port, sessions } = await startHttp2Backend();
    const gateway = await serve(port, h2c);
    await fetch(gateway.url());
    await new Promise<void>((resolve) => sessions[0]?.close(resolve));
    expect((await fetch(gateway.url())).status).toBe(200);
    expect(sessions).toHaveLength(2);
  });
});

describe("gRPC through an HTTPRoute", () => {
  const methods = [
    { method: "Say", texts: ["hello"], messages: ["hello"] },
    { method: "Count", texts: ["3"], messages: ["1", "2", "3"] },
    { method: "Chat", texts: ["a", "b"], messages: ["A", "B"] },
  ];

  test.each(methods)("$method: messages, status and trailers arrive", async ({ method, texts, messages }) => {
    const gateway = await serve((await startGrpcBackend()).port, h2c);
    const client = connectGrpc(new URL(gateway.url()).host);
    expect(await callGrpc(client, method, texts)).toMatchObject({
      messages,
      code: status.OK,
      details: "OK",
      servedBy: "echo",
    });
  });

  test("a failed call keeps its status, which is in the trailers", async () => {
    const gateway = await serve((await startGrpcBackend()).port, "appProtocol: grpc");
    const outcome = await callGrpc(connectGrpc(new URL(gateway.url()).host), "Fail", ["x"]);
    expect(outcome).toMatchObject({
      messages: [],
      code: status.FAILED_PRECONDITION,
      details: "not today",
      servedBy: "echo",
    });
  });
});

test("a gRPC response of trailers only stays one frame, as its status requires", async () => {
  const { port } = await startHttp2Backend((stream) => {
    const fields = { ":status": 200, "content-type": "application/grpc", "grpc-status": "12" };
    stream.respond(fields, { endStream: true });
  });
  const gateway = await serve(port, "appProtocol: grpc");
  const session = connect(gateway.url());
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":method": "POST", ":path": "/a.B/C", te: "trailers" });
  const [headers, flags] = (await once(stream.end(), "response")) as [IncomingHttpHeaders, number];
  expect(headers["grpc-status"]).toBe("12");
  expect(flags & endStream).toBe(endStream);
});

describe.each(["kubernetes.io/ws", "kubernetes.io/wss", "http", "example.com/own"])("%s", (appProtocol) => {
  test("gets HTTP/1.1", async () => {
    const { port, requests } = await startBackend();
    const gateway = await serve(port, `appProtocol: ${appProtocol}`);
    expect((await fetch(gateway.url())).status).toBe(200);
    expect(requests[0]?.httpVersion).toBe("1.1");
  });

  test("switches to WebSocket", async () => {
    const { port } = await startWebSocketBackend();
    const gateway = await serve(port, `appProtocol: ${appProtocol}`);
    const socket = new WebSocket(gateway.url().replace("http:", "ws:"));
    onTestFinished(() => socket.terminate());
    const response = await new Promise<string>((resolve, reject) => {
      socket.on("open", () => socket.send("hello"));
      socket.on("message", (data: Buffer) => resolve(data.toString()));
      socket.on("error", reject);
    });
    expect(response).toBe("hello");
  });
});
