/** Servers of HTTP/2 that others have written, as backends: net/http of Go, and nginx. */
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type ClientHttp2Stream, connect, type IncomingHttpHeaders } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { startHttp2Gateway } from "../support/http2-gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** Sends a request over HTTP/2, with a trailer. */
async function sendHttp2(url: string, path: string, body: Buffer) {
  const session = connect(url);
  onTestFinished(() => session.destroy());
  const stream: ClientHttp2Stream = session.request(
    { ":method": "POST", ":path": path, trailer: "x-sum" },
    { waitForTrailers: true },
  );
  stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": "abc" }));
  let trailers: IncomingHttpHeaders = {};
  stream.on("trailers", (fields: IncomingHttpHeaders) => (trailers = fields));
  stream.end(body);
  const [headers] = (await once(stream, "response")) as [IncomingHttpHeaders];
  const text = Buffer.concat((await stream.toArray()) as Buffer[]).toString();
  return { headers, text, trailers };
}

describeWith(["go"], "net/http of Go", ({ go }) => {
  let folder = "";
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "http2-server-"));
    const source = join(import.meta.dirname, "testdata/http2-server/main.go");
    execFileSync(go, ["build", "-o", join(folder, "server"), source], { env: { ...process.env, GO111MODULE: "off" } });
  }, 120_000);
  afterAll(() => rmSync(folder, { recursive: true }));

  async function start() {
    const server = spawn(join(folder, "server"), { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void server.kill());
    const [line] = (await once(server.stdout, "data")) as [Buffer];
    return startHttp2Gateway([Number(line.toString())]);
  }

  test("gets bodies larger than its windows, with their trailers, and its own trailers arrive", async () => {
    const gateway = await start();
    const body = Buffer.alloc(5_000_000, "0123456789");
    const { headers, text, trailers } = await sendHttp2(gateway.url(), "/digest", body);
    expect(text).toBe(`${sha256(body)} <nil>`);
    expect(headers["x-received-trailer"]).toBe("abc");
    expect(trailers["x-size"]).toBe("5000000");
  });

  test("its large responses arrive at the pace of several clients", async () => {
    const gateway = await start();
    const responses = await Promise.all([1, 2, 3].map(() => fetch(`${gateway.url()}/large`)));
    const lengths = await Promise.all(responses.map(async (each) => (await each.arrayBuffer()).byteLength));
    expect(lengths).toEqual([20_000_000, 20_000_000, 20_000_000]);
  });

  test("its early hints arrive before the response", async () => {
    const gateway = await start();
    const response = await rawHttp(gateway.url(), "GET /hints HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect(response.interim).toEqual([expect.stringMatching(/^HTTP\/1\.1 103 [^]*link: <\/a\.css>/)]);
    expect(response.body).toContain("hinted");
  });

  test("a client that expects 100 (Continue) gets it", async () => {
    const gateway = await start();
    const head =
      "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    const response = await rawHttp(gateway.url(), `${head}hello`);
    expect(response.interim).toEqual(["HTTP/1.1 100 Continue"]);
    expect(response.body).toContain(sha256(Buffer.from("hello")));
  });

  test("no request fails while it restarts gracefully (GOAWAY) under load", async () => {
    const gateway = await start();
    const statuses: number[] = [];
    let isOver = false;
    const load = async (): Promise<void> => {
      while (!isOver) {
        const response = await fetch(`${gateway.url()}/digest`, { method: "POST", body: "x".repeat(50_000) });
        await response.text();
        statuses.push(response.status);
      }
    };
    const clients = Promise.all(Array.from({ length: 8 }, load));
    for (let restarts = 0; restarts < 5; restarts++) {
      const before = statuses.length;
      expect((await fetch(`${gateway.url()}/restart`)).status).toBe(200);
      await expect.poll(() => statuses.length, { timeout: 10_000 }).toBeGreaterThan(before + 16);
    }
    isOver = true;
    await clients;
    expect(new Set(statuses)).toEqual(new Set([200]));
    await expect.poll(async () => (await fetch(`${gateway.url()}/generation`)).text()).toBe("6");
  }, 60_000);
});

describeWith(["nginx"], "nginx", ({ nginx }) => {
  async function start() {
    const folder = mkdtempSync(join(tmpdir(), "nginx-http2-"));
    const port = await freePort();
    // The worker may run as another user.
    chmodSync(folder, 0o755);
    writeFileSync(join(folder, "large"), Buffer.alloc(20_000_000));
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    const config = join(folder, "nginx.conf");
    writeFileSync(
      config,
      `daemon off; pid ${folder}/pid; error_log stderr error; worker_processes 1; events {}
http {
  access_log off; client_max_body_size 100m; keepalive_requests 20;
  ${temporary.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(" ")}
  server { listen 127.0.0.1:${port} http2; root ${folder}; location /ok { return 200 ok; } }
}`,
    );
    const server = spawn(nginx, ["-e", "stderr", "-p", folder, "-c", config], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    onTestFinished(async () => {
      const ended = once(server, "exit");
      server.kill();
      await ended;
      rmSync(folder, { recursive: true });
    });
    const gateway = await startHttp2Gateway([port]);
    await expect.poll(async () => (await fetch(`${gateway.url()}/ok`)).status, { timeout: 10_000 }).toBe(200);
    return { gateway, server };
  }

  test("its large responses arrive", async () => {
    const { gateway } = await start();
    expect((await (await fetch(`${gateway.url()}/large`)).arrayBuffer()).byteLength).toBe(20_000_000);
  });

  test("no request fails although it ends each connection after 20 requests (GOAWAY), and while it reloads", async () => {
    const { gateway, server } = await start();
    const statuses: number[] = [];
    const load = async (): Promise<void> => {
      for (let n = 0; n < 50; n++) {
        if (n === 25) server.kill("SIGHUP");
        const response = await fetch(`${gateway.url()}/ok`);
        await response.text();
        statuses.push(response.status);
      }
    };
    await Promise.all(Array.from({ length: 8 }, load));
    expect(statuses).toEqual(Array<number>(400).fill(200));
  }, 30_000);
});
