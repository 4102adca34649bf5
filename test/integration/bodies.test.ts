/** Bodies, end to end: framing, back-pressure, trailers, and the end when either side disconnects. */
import { request as httpRequest } from "node:http";
import { type AddressInfo, connect, createServer } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, type Echo, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

async function serve(port: number): Promise<TestGateway> {
  return startGateway(
    manifests(gatewayManifest(), backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`])),
  );
}

describe("requests", () => {
  test.each([
    ["a small body of known length", 1_000],
    ["a body longer than the buffer", 300_000],
  ])("%s arrives completely, with its length", async (_case, bytes) => {
    const gateway = await serve((await startBackend()).port);
    const response = await fetch(gateway.url(), { method: "POST", body: "x".repeat(bytes) });
    const echo = (await response.json()) as Echo;
    expect(echo.body).toHaveLength(bytes);
    expect(echo.headers["content-length"]).toBe(String(bytes));
  });

  test("a body of unknown length arrives chunk by chunk, before its end", async () => {
    const { promise: firstChunk, resolve } = Promise.withResolvers<string>();
    const { port } = await startBackend((request, response) => {
      request.once("data", (chunk: Buffer) => resolve(chunk.toString()));
      request.on("end", () => response.end("done"));
    });
    const gateway = await serve(port);
    const client = httpRequest(gateway.url(), { method: "POST" });
    const status = new Promise<number | undefined>((done) => client.on("response", (r) => done(r.resume().statusCode)));
    client.write("first");
    expect(await firstChunk).toBe("first");
    client.end("last");
    expect(await status).toBe(200);
    expect(gateway.records[0]?.requestBytes ?? (await gateway.nextRecord()).requestBytes).toBe(9);
  });

  test("a small body that arrives with its head is sent with it, in one write", async () => {
    const { promise: firstRead, resolve } = Promise.withResolvers<string>();
    const backend = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", (chunk) => {
        resolve(chunk.toString());
        socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
      });
    });
    await new Promise<void>((listening) => backend.listen(0, "127.0.0.1", listening));
    onTestFinished(() => void backend.close());
    // A listening TCP server has such an address.
    const gateway = await serve((backend.address() as AddressInfo).port);
    await rawHttp(gateway.url(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    expect(await firstRead).toMatch(/^POST \/ HTTP\/1\.1\r\n[^]*\r\n\r\nhello$/);
  });

  test("a client that expects 100 Continue gets it, and only when the backend reads the body", async () => {
    const gateway = await serve((await startBackend()).port);
    const { hostname, port } = new URL(gateway.url());
    const socket = connect(Number(port), hostname);
    const lines: string[] = [];
    socket.write(
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
    );
    socket.once("data", () => socket.write("hello"));
    for await (const chunk of socket) lines.push(String(chunk));
    const text = lines.join("");
    expect(text.startsWith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")).toBe(true);
    expect(text).toContain('"body":"hello"');
  });

  test("a client that expects 100 Continue gets the response of the backend instead, and its connection is closed", async () => {
    const gateway = await startGateway(gatewayManifest());
    const response = await rawHttp(
      gateway.url(),
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    );
    expect(response.status).toBe(404);
    expect(response.head.toLowerCase()).toContain("connection: close");
  });

  test("a client that expects 100 Continue and is over a limit gets a 429 before it sends its body", async () => {
    const { port } = await startBackend();
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        backendManifest("b", port),
        routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
        policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 1, unit: Hours }"]),
      ),
    );
    await (await fetch(gateway.url())).text();
    const response = await rawHttp(
      gateway.url(),
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    );
    expect(response.status).toBe(429);
    expect(response.head.toLowerCase()).toContain("connection: close");
  });

  test("a client that disconnects ends the attempt", async () => {
    const { promise: gone, resolve } = Promise.withResolvers<undefined>();
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<undefined>();
    const { port } = await startBackend((_request, response) => {
      response.on("close", () => resolve(undefined));
      arrive(undefined);
    });
    const gateway = await serve(port);
    const client = httpRequest(gateway.url()).end();
    client.on("error", () => undefined);
    await arrived;
    const record = gateway.nextRecord();
    client.destroy();
    await gone;
    expect(await record).toMatchObject({ reason: "ClientDisconnect", status: 0 });
  });
});

describe("responses", () => {
  test("a short response of unknown length gets a content-length, since it is buffered completely", async () => {
    const { port } = await startBackend((_request, response) => {
      response.write("a");
      response.end("b");
    });
    const reply = await fetch((await serve(port)).url());
    expect(await reply.text()).toBe("ab");
  });

  test("a response to HEAD has the content-length of the response to GET, and no other", async () => {
    const { port } = await startBackend((request, response) => {
      if (request.url === "/known") response.setHeader("content-length", 42);
      response.end();
    });
    const gateway = await serve(port);
    const known = await fetch(`${gateway.url()}/known`, { method: "HEAD" });
    const unknown = await fetch(`${gateway.url()}/unknown`, { method: "HEAD" });
    expect([known.headers.get("content-length"), unknown.headers.get("content-length")]).toEqual(["42", null]);
  });

  test.each([204, 304])("%i has neither body nor length", async (status) => {
    const gateway = await serve((await startBackend(respondWith(status))).port);
    const {
      status: got,
      head,
      body,
    } = await rawHttp(gateway.url(), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect([got, body]).toEqual([status, ""]);
    expect(head.toLowerCase()).not.toMatch(/content-length|transfer-encoding/);
  });

  test("the first byte of a stream does not wait for the second", async () => {
    const { promise: goOn, resolve: next } = Promise.withResolvers<undefined>();
    const { port } = await startBackend((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("data: 1\n\n");
      void goOn.then(() => response.end("data: 2\n\n"));
    });
    const reply = await fetch((await serve(port)).url());
    const reader = reply.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("data: 1\n\n");
    next(undefined);
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("data: 2\n\n");
    expect((await reader?.read())?.done).toBe(true);
  });

  test("a slow client slows the backend down, and the proxy's memory does not grow", async () => {
    const total = 64 * 1024 * 1024;
    let written = 0;
    const { promise: blocked, resolve } = Promise.withResolvers<number>();
    const { port } = await startBackend((_request, response) => {
      const chunk = Buffer.alloc(1024 * 1024);
      const fill = (): void => {
        while (written < total) {
          written += chunk.length;
          if (!response.write(chunk)) {
            response.once("drain", fill);
            // The kernel's buffers take some megabytes; then nothing moves until the client reads.
            setTimeout(() => resolve(written), 300).unref();
            return;
          }
        }
        response.end();
      };
      fill();
    });
    const gateway = await serve(port);
    const reply = await fetch(gateway.url());
    expect(await blocked).toBeLessThan(total);
    let read = 0;
    for await (const chunk of reply.body ?? []) read += (chunk as Uint8Array).length;
    expect(read).toBe(total);
  });

  test("trailers pass", async () => {
    const { port } = await startBackend((_request, response) => {
      response.writeHead(200, { trailer: "x-checksum" });
      response.write("body");
      response.addTrailers({ "x-checksum": "abc" });
      response.end();
    });
    const { body } = await rawHttp(
      (await serve(port)).url(),
      "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n\r\n",
    );
    expect(body).toBe("4\r\nbody\r\n0\r\nx-checksum: abc\r\n\r\n");
  });

  test("a response that the backend resets reaches the client as incomplete", async () => {
    const { port } = await startBackend((_request, response) => {
      response.writeHead(200, { "content-length": 100 });
      response.write("part", () => response.destroy());
    });
    const gateway = await serve(port);
    const record = gateway.nextRecord();
    await expect(fetch(gateway.url()).then((response) => response.text())).rejects.toThrow();
    expect(await record).toMatchObject({ status: 200, reason: "UpstreamReset" });
  });
});

describe("ambiguous requests are rejected", () => {
  const cases: readonly (readonly [string, string, number])[] = [
    ["two Host fields", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400],
    ["a Host with an empty label", "GET / HTTP/1.1\r\nHost: a..example\r\n\r\n", 400],
    ["a Host with two dots at its end", "GET / HTTP/1.1\r\nHost: a.example..\r\n\r\n", 400],
    ["a Host with user information", "GET / HTTP/1.1\r\nHost: me@a\r\n\r\n", 400],
    ["another scheme in the target", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400],
    ["a fragment in the target", "GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 400],
    ["Transfer-Encoding in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400],
    [
      "both framings",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      400,
    ],
    ["too many fields", `GET / HTTP/1.1\r\nHost: a\r\n${"x: y\r\n".repeat(250)}\r\n`, 431],
    ["a target that is too long", `GET /${"x".repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 414],
  ];

  test.each(cases)("%s", async (_case, request, status) => {
    const backend = await startBackend(respondWith(200));
    expect((await rawHttp((await serve(backend.port)).url(), request)).status).toBe(status);
    expect(backend.requests).toHaveLength(0);
  });

  test("the authority of an absolute target takes precedence over Host", async () => {
    const gateway = await serve((await startBackend()).port);
    const { body } = await rawHttp(
      gateway.url(),
      "GET http://real.example/p HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n",
    );
    expect((JSON.parse(body) as Echo).headers["host"]).toBe("real.example");
  });
});
