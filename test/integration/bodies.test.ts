/** Bodies through the door: framing, back-pressure, trailers, and what happens when either side leaves. */
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
    ["a body longer than what is held", 300_000],
  ])("%s arrives whole, with its length", async (_case, bytes) => {
    const gateway = await serve((await startBackend()).port);
    const response = await fetch(gateway.url(), { method: "POST", body: "x".repeat(bytes) });
    const echo = (await response.json()) as Echo;
    expect(echo.body).toHaveLength(bytes);
    expect(echo.headers["content-length"]).toBe(String(bytes));
  });

  test("a body of unknown length arrives chunk by chunk, before it has ended", async () => {
    const { promise: firstChunk, resolve } = Promise.withResolvers<string>();
    const { port } = await startBackend((request, response) => {
      request.once("data", (chunk: Buffer) => resolve(chunk.toString()));
      request.on("end", () => response.end("done"));
    });
    const gateway = await serve(port);
    const client = httpRequest(gateway.url(), { method: "POST" });
    const answered = new Promise<number | undefined>((done) =>
      client.on("response", (r) => done(r.resume().statusCode)),
    );
    client.write("first");
    expect(await firstChunk).toBe("first");
    client.end("last");
    expect(await answered).toBe(200);
    expect(gateway.records[0]?.requestBytes ?? (await gateway.nextRecord()).requestBytes).toBe(9);
  });

  test("a small body that comes with its head leaves with it, in one write", async () => {
    const { promise: firstRead, resolve } = Promise.withResolvers<string>();
    const backend = createServer((socket) => {
      socket.once("data", (chunk) => {
        resolve(chunk.toString());
        socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
      });
    });
    await new Promise<void>((listening) => backend.listen(0, "127.0.0.1", listening));
    onTestFinished(() => void backend.close());
    // A TCP server that listens has such an address.
    const gateway = await serve((backend.address() as AddressInfo).port);
    await rawHttp(gateway.url(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    expect(await firstRead).toMatch(/^POST \/ HTTP\/1\.1\r\n[^]*\r\n\r\nhello$/);
  });

  test("a client that expects 100 Continue is told to go on, and only when its body is wanted", async () => {
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

  test("a client that expects 100 Continue and is refused is told so, and its connection is closed", async () => {
    const gateway = await startGateway(gatewayManifest());
    const response = await rawHttp(
      gateway.url(),
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    );
    expect(response.status).toBe(404);
    expect(response.head.toLowerCase()).toContain("connection: close");
  });

  test("a client that expects 100 Continue and is over a limit is refused without having sent its body", async () => {
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

  test("a client that goes away ends the call to the backend", async () => {
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

describe("answers", () => {
  test("a short answer of unknown length gets one, for it is known by then", async () => {
    const { port } = await startBackend((_request, response) => {
      response.write("a");
      response.end("b");
    });
    const reply = await fetch((await serve(port)).url());
    expect(await reply.text()).toBe("ab");
  });

  test("HEAD tells the length that GET would have, and nothing of its own", async () => {
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

  test("a slow reader slows the backend down instead of filling our memory", async () => {
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
            // The kernel's buffers take some megabytes; then nothing moves until the reader does.
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

  test("an answer that breaks off in the middle does not look whole", async () => {
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

describe("requests that could mean two things are refused", () => {
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

  test("the authority of an absolute target counts, not Host", async () => {
    const gateway = await serve((await startBackend()).port);
    const { body } = await rawHttp(
      gateway.url(),
      "GET http://real.example/p HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n",
    );
    expect((JSON.parse(body) as Echo).headers["host"]).toBe("real.example");
  });
});
