/** Pipelined requests of an HTTP/1.1 connection: which are forwarded, and when none is. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaultUpstream } from "../../proxy/src/upstream/upstream-settings.ts";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

/**
 * A backend that responds to `/hold…` when the test says so and to all others at once, and a gateway in front of it.
 */
async function start(options: TestGatewayOptions = {}) {
  const held: (() => void)[] = [];
  let inProgress = 0;
  let maxInProgress = 0;
  const respond = (request: IncomingMessage, response: ServerResponse): void => {
    maxInProgress = Math.max(maxInProgress, ++inProgress);
    response.once("close", () => inProgress--);
    const end = (): void => void response.end(`${request.method} ${request.url}\n`);
    request.resume().on("end", () => {
      if (request.url?.startsWith("/hold") === true) held.push(end);
      else end();
    });
  };
  const { port, requests } = await startBackend(respond);
  const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", port), route), options);
  const received = (): readonly string[] => requests.map(({ method, url }) => `${method} ${url}`);
  return { gateway, held, received, maxInProgress: () => maxInProgress };
}

/** A connection to the gateway that collects the received bytes. */
function openSocket(gateway: TestGateway): { readonly socket: Socket; readonly text: () => string } {
  const { hostname, port } = new URL(gateway.url());
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
  });
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  return { socket, text: () => text };
}

/** Resolves when the gateway has closed the connection, even by a reset because of unread bytes. */
async function ended(socket: Socket): Promise<void> {
  if (socket.readableEnded || socket.closed) return;
  await new Promise((resolve) => socket.once("end", resolve).once("close", resolve));
}

const request = (method: string, path: string, fields = "", body = ""): string =>
  `${method} ${path} HTTP/1.1\r\nHost: a\r\n${fields}\r\n${body}`;

/** The bodies of the responses, in order. */
const bodies = (text: string): readonly string[] => text.match(/^(?:GET|POST|DELETE|PUT) \S+$/gm) ?? [];
const statuses = (text: string): readonly string[] => [...text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, s]) => s ?? "");

describe("pipelined requests", () => {
  test("are forwarded one at a time, and their responses have the same order", async () => {
    const { gateway, received, maxInProgress } = await start();
    const { socket, text } = openSocket(gateway);
    const sent = Array.from({ length: 60 }, (_, i) => (i % 3 === 0 ? `POST /${i}` : `GET /${i}`));
    socket.write(
      sent
        .map((line) => {
          const [method = "", path = ""] = line.split(" ");
          return method === "POST" ? request(method, path, "Content-Length: 2\r\n", "ab") : request(method, path);
        })
        .join(""),
    );
    await expect.poll(() => bodies(text())).toEqual(sent);
    expect(received()).toEqual(sent);
    expect(maxInProgress()).toBe(1);
  });

  test("do not overtake an unsafe one that is in progress", async () => {
    const { gateway, held, received } = await start();
    const { socket, text } = openSocket(gateway);
    socket.write(request("POST", "/hold", "Content-Length: 2\r\n", "ab") + request("GET", "/next"));
    await expect.poll(() => held.length).toBe(1);
    // A request of another client is served at that time.
    expect(await (await fetch(`${gateway.url()}/other`)).text()).toBe("GET /other\n");
    expect(received()).toEqual(["POST /hold", "GET /other"]);
    held[0]?.();
    await expect.poll(() => bodies(text())).toEqual(["POST /hold", "GET /next"]);
  });

  test("use one connection to the backend, however many they are", async () => {
    const upstream = { ...defaultUpstream, maxConnections: 2, maxWaiting: 0 };
    const { gateway, held, received } = await start({ upstream });
    const { socket } = openSocket(gateway);
    socket.write(request("GET", "/hold").repeat(3_000));
    await expect.poll(() => held.length).toBe(1);
    for (let i = 0; i < 5; i++) expect((await fetch(`${gateway.url()}/other`)).status).toBe(200);
    expect(received().filter((line) => line === "GET /hold")).toHaveLength(1);
  });

  test("are dropped with their connection", async () => {
    const { gateway, held, received } = await start();
    const { socket } = openSocket(gateway);
    socket.write(request("GET", "/hold") + request("GET", "/next"));
    await expect.poll(() => held.length).toBe(1);
    const left = gateway.nextRecord();
    socket.destroy();
    expect(await left).toMatchObject({ path: "/hold", reason: "ClientDisconnect" });
    expect((await fetch(`${gateway.url()}/other`)).status).toBe(200);
    expect(received()).toEqual(["GET /hold", "GET /other"]);
  });

  test("are all served, however many of them wait unread", async () => {
    const { gateway, held } = await start();
    const { socket, text } = openSocket(gateway);
    const big = `x: ${"y".repeat(8_000)}\r\n`;
    socket.write(request("GET", "/hold") + request("GET", "/big", big).repeat(190));
    await expect.poll(() => held.length).toBe(1);
    held[0]?.();
    await expect.poll(() => bodies(text()).length).toBe(191);
    socket.write(request("GET", "/last"));
    await expect.poll(() => bodies(text()).at(-1)).toBe("GET /last");
  });
});

describe("after a request whose response has close", () => {
  const rejected: readonly (readonly [string, string, string])[] = [
    ["two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"],
    ["no Host", "GET / HTTP/1.1\r\n\r\n", "400"],
    ["an ambiguous path", "GET /..%2f HTTP/1.1\r\nHost: a\r\n\r\n", "400"],
    [
      "a coding within the chunks",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      "501",
    ],
    ["an expectation without a body", "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", "200"],
    ["too many fields", `GET / HTTP/1.1\r\nHost: a\r\n${"x: y\r\n".repeat(200)}\r\n`, "431"],
  ];

  test.each(rejected)("for %s, nothing is processed", async (_case, first, status) => {
    const { gateway, received } = await start();
    // The backend connection is open before, so that a hidden request would arrive at once.
    await fetch(`${gateway.url()}/warm`);
    const own = status === "200" ? ["GET /"] : [];
    const methods = ["GET", "DELETE", "POST"];
    const responses = await Promise.all(
      Array.from({ length: 18 }, (_, i) => {
        const hidden = request(methods[i % 3] ?? "", "/hidden", i % 3 === 2 ? "Content-Length: 2\r\n" : "", "");
        return rawHttp(gateway.url(), first + (i % 3 === 2 ? `${hidden}ab` : hidden).repeat(1 + (i % 4)));
      }),
    );
    await fetch(`${gateway.url()}/sentinel`);
    expect(received().filter((line) => line.includes("hidden"))).toEqual([]);
    expect(received().filter((line) => line === own[0])).toHaveLength(own.length * responses.length);
    expect(gateway.records.filter(({ path }) => path === "/hidden")).toEqual([]);
    expect(responses.map((response) => String(response.status))).toEqual(responses.map(() => status));
  });

  test.each([
    ["close", "GET /own HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"],
    ["an older version", "GET /own HTTP/1.0\r\nHost: a\r\n\r\n"],
  ])("nothing is processed after the client's own %s", async (_case, first) => {
    const { gateway, received } = await start();
    await rawHttp(gateway.url(), first + request("GET", "/hidden"));
    await rawHttp(gateway.url(), first);
    await fetch(`${gateway.url()}/sentinel`);
    expect(received().filter((line) => line !== "GET /own")).toEqual(["GET /sentinel"]);
  });

  test("nothing is processed that arrives while the response is pending", async () => {
    const { gateway, held, received } = await start();
    const { socket, text } = openSocket(gateway);
    socket.write(request("GET", "/hold") + "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    await expect.poll(() => held.length).toBe(1);
    for (let i = 0; i < 5; i++) {
      socket.write(request("DELETE", "/hidden"));
      await new Promise((resolve) => setImmediate(resolve));
    }
    held[0]?.();
    await ended(socket);
    expect(statuses(text())).toEqual(["200", "400"]);
    await fetch(`${gateway.url()}/sentinel`);
    expect(received()).toEqual(["GET /hold", "GET /sentinel"]);
  });

  const websocket = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n";
  const notSwitched: readonly (readonly [string, string])[] = [
    ["another protocol", request("GET", "/own", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n")],
    ["a protocol among several", request("GET", "/own", "Connection: upgrade\r\nUpgrade: h2c, TLS/1.3\r\n")],
    ["a switch after a body", request("POST", "/own", `${websocket}Content-Length: 3\r\n`, "abc")],
    [
      "a switch after chunks",
      request("POST", "/own", `${websocket}Transfer-Encoding: chunked\r\n`, "1\r\na\r\n0\r\n\r\n"),
    ],
    [
      "a switch in two Connection fields",
      request("GET", "/own", "Connection: close-not\r\nConnection: UPGRADE\r\nUpgrade: x\r\n"),
    ],
    [
      "a switch after an expectation",
      request("POST", "/own", `${websocket}Expect: 100-continue\r\nContent-Length: 1\r\n`, "a"),
    ],
    ["a switch by HEAD", request("HEAD", "/own", "Connection: Upgrade\r\nUpgrade: h2c\r\n")],
  ];
  const hiddenBody = request("GET", "/hidden");
  const hiddenHead = request("POST", "/hidden-too", `Content-Length: ${hiddenBody.length}\r\n`);

  describe.each(notSwitched)("for %s, which gets a response without switching", (_case, first) => {
    test.each([
      ["in the same write", [first + hiddenBody]],
      ["in the next write", [first, hiddenBody]],
      ["with its head in the same write and a request in its body", [first + hiddenHead, hiddenBody]],
      ["with the end of the first request", [first.slice(0, -2), first.slice(-2) + hiddenHead, hiddenBody]],
    ])("nothing is processed that arrives %s", async (_where, writes) => {
      const { gateway, received } = await start();
      await fetch(`${gateway.url()}/warm`);
      const { socket, text } = openSocket(gateway);
      for (const write of writes) {
        socket.write(write);
        for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      }
      await ended(socket);
      await fetch(`${gateway.url()}/sentinel`);
      expect(received().filter((line) => line.includes("hidden"))).toEqual([]);
      expect(statuses(text()).filter((status) => status !== "100")).toEqual(["200"]);
      expect(text()).toMatch(/^connection: close\r$/im);
    });

    test("nothing is processed if it waits for an earlier request either", async () => {
      const { gateway, held, received } = await start();
      const { socket, text } = openSocket(gateway);
      socket.write(request("GET", "/hold") + first + hiddenHead);
      await expect.poll(() => held.length).toBe(1);
      socket.write(hiddenBody);
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      held[0]?.();
      await ended(socket);
      await fetch(`${gateway.url()}/sentinel`);
      expect(received().map((line) => line.split(" ")[1])).toEqual(["/hold", "/own", "/sentinel"]);
      expect(text().match(/^connection: close\r$/gim)).toHaveLength(1);
    });
  });

  test("nothing is processed after a switch that waits for an earlier request and is therefore not made", async () => {
    const { gateway, held, received } = await start();
    const { socket, text } = openSocket(gateway);
    socket.write(request("GET", "/hold") + request("GET", "/own", websocket) + hiddenHead);
    await expect.poll(() => held.length).toBe(1);
    socket.write(hiddenBody);
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    held[0]?.();
    await ended(socket);
    await fetch(`${gateway.url()}/sentinel`);
    expect(received()).toEqual(["GET /hold", "GET /own", "GET /sentinel"]);
    expect(statuses(text())).toEqual(["200", "200"]);
  });

  test("a CONNECT is the last request of its connection", async () => {
    const { gateway, received } = await start();
    const { socket, text } = openSocket(gateway);
    socket.write(`CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n${hiddenHead}`);
    await new Promise((resolve) => setImmediate(resolve));
    socket.write(hiddenBody);
    await ended(socket);
    await fetch(`${gateway.url()}/sentinel`);
    expect(received().filter((line) => line.includes("hidden"))).toEqual([]);
    expect(text()).toMatch(/^connection: close\r$/im);
  });

  test("a request with Upgrade but without Connection: upgrade is an ordinary one, and others may follow", async () => {
    const { gateway, received } = await start();
    const { socket, text } = openSocket(gateway);
    socket.write(request("GET", "/own", "Upgrade: h2c\r\n") + request("GET", "/next"));
    await expect.poll(() => bodies(text())).toEqual(["GET /own", "GET /next"]);
    expect(received()).toEqual(["GET /own", "GET /next"]);
  });

  test("no switch of protocols and no CONNECT is made", async () => {
    const { gateway, received } = await start();
    const bad = "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
    await rawHttp(gateway.url(), bad + request("GET", "/hidden", "Connection: upgrade\r\nUpgrade: websocket\r\n"));
    await rawHttp(gateway.url(), `${bad}CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n`);
    await fetch(`${gateway.url()}/sentinel`);
    expect(received()).toEqual(["GET /sentinel"]);
    expect(gateway.records.filter(({ status }) => status === 400)).toHaveLength(2);
  });

  test("nothing is processed, for random requests and splits into writes", async () => {
    const { gateway, received: requestLines } = await start();
    const good = fc.constantFrom(
      request("GET", "/ok"),
      request("POST", "/ok", "Content-Length: 3\r\n", "abc"),
      request("PUT", "/ok", "Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n\r\n"),
    );
    const bad = fc.constantFrom(...rejected.slice(0, 4).map(([, text]) => text));
    const script = fc.record({
      before: fc.array(good, { maxLength: 4 }),
      bad,
      cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 }),
    });
    let run = 0;
    await fc.assert(
      fc.asyncProperty(script, async ({ before, bad, cuts }) => {
        const name = `run${++run}`;
        const hidden = request("DELETE", `/${name}/hidden`).repeat(3);
        const text = (before.join("") + bad).replaceAll("/ok", `/${name}/ok`) + hidden;
        const { socket, text: received } = openSocket(gateway);
        const cutPositions = [
          0,
          ...cuts.map((cut) => Math.floor(cut * text.length)).sort((a, b) => a - b),
          text.length,
        ];
        for (const [i, end] of cutPositions.slice(1).entries()) {
          socket.write(text.slice(cutPositions[i], end));
          await new Promise((resolve) => setImmediate(resolve));
        }
        await ended(socket);
        const mine = requestLines().filter((line) => line.includes(`/${name}/`));
        expect(mine.filter((line) => line.includes("hidden"))).toEqual([]);
        expect(mine.length).toBeLessThanOrEqual(before.length);
        expect(
          statuses(received())
            .slice(0, -1)
            .every((status) => status === "200"),
        ).toBe(true);
      }),
      { numRuns: 40 },
    );
  });
});
