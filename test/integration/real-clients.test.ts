/** Common clients: curl, nghttp, grpcurl and `ws`, each against a gateway on real sockets. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { type Echo, startBackend } from "../support/backend.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  serviceManifest,
  startGateway,
} from "../support/gateway.ts";
import { echoProto, startGrpcBackend } from "../support/grpc-backend.ts";
import { tlsGatewayManifest, tlsListener, tlsSecretManifest } from "../support/tls.ts";
import { startWebSocketBackend } from "../support/upgrades.ts";

/** The output of a program, whatever its exit status. */
async function run(program: string, args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  try {
    return await promisify(execFile)(program, args, { timeout: 20_000 });
  } catch (error) {
    // A rejection of execFile has the output until then.
    return error as { stdout: string; stderr: string };
  }
}

const route = (port: number): string =>
  manifests(backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`]));

describeWith(["curl"], "curl", ({ curl }) => {
  test.each([
    ["HTTP/1.1", "--http1.1", "1.1"],
    ["HTTP/2 without TLS", "--http2-prior-knowledge", "2"],
  ])("%s with a body", async (_case, flag, version) => {
    const gateway = await startGateway(manifests(gatewayManifest(), route((await startBackend()).port)));
    const { stdout } = await run(curl, ["-sS", flag, "-d", "hello", "-H", "x-a: 1", `${gateway.url()}/path?q=1`]);
    expect(JSON.parse(stdout) as Echo).toMatchObject({ method: "POST", url: "/path?q=1", body: "hello" });
    expect(gateway.records[0]).toMatchObject({ httpVersion: version, status: 200 });
  });
});

describeWith(["curl", "openssl"], "curl over TLS", ({ curl, openssl }) => {
  test.each([
    ["--http1.1", "1.1"],
    ["--http2", "2"],
  ])("%s", async (flag, version) => {
    const folder = mkdtempSync(join(tmpdir(), "real-clients-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const authority = new TestAuthority(openssl, folder, "authority");
    const secret = tlsSecretManifest("cert", authority.issue("server", "DNS:app.example"));
    const listener = tlsGatewayManifest([tlsListener("https", ["cert"])]);
    const gateway = await startGateway(manifests(listener, secret, route((await startBackend()).port)));
    const { port } = new URL(gateway.url(443));
    const target = ["--cacert", authority.authority.certFile, "--resolve", `app.example:${port}:127.0.0.1`];
    const { stdout } = await run(curl, ["-sS", flag, ...target, `https://app.example:${port}/`]);
    expect(JSON.parse(stdout) as Echo).toMatchObject({ headers: { "x-forwarded-proto": "https" } });
    expect(gateway.records[0]).toMatchObject({ httpVersion: version, status: 200 });
  });
});

describeWith(["nghttp"], "nghttp", ({ nghttp }) => {
  test("several streams of one connection, each with its response", async () => {
    const { port, requests } = await startBackend();
    const gateway = await startGateway(manifests(gatewayManifest(), route(port)));
    const { stdout } = await run(nghttp, ["-nsv", ...["/a", "/b", "/c"].map((path) => gateway.url() + path)]);
    expect(stdout.match(/:status: 200/g)).toHaveLength(3);
    expect(requests.map(({ url }) => url).sort()).toEqual(["/a", "/b", "/c"]);
  });
});

describeWith(["grpcurl"], "grpcurl through an HTTPRoute to an h2c Service", ({ grpcurl }) => {
  async function call(method: string, message: string): Promise<{ stdout: string; stderr: string }> {
    const { port } = await startGrpcBackend();
    const service = serviceManifest("svc", [port], "appProtocol: kubernetes.io/h2c");
    const rule = "{ matches: [{ path: { value: /test.Echo } }], backendRefs: [{ name: svc, port: 80 }] }";
    const gateway = await startGateway(manifests(gatewayManifest(), service, routeManifest("r", [rule])));
    const schema = ["-import-path", dirname(echoProto), "-proto", "echo.proto"];
    return run(grpcurl, ["-plaintext", "-v", ...schema, "-d", message, new URL(gateway.url()).host, method]);
  }

  test("a unary call, with its trailers", async () => {
    const { stdout } = await call("test.Echo/Say", '{"text": "hello"}');
    expect(stdout).toContain('"text": "hello"');
    expect(stdout).toMatch(/Response trailers received:\n\s*x-served-by: echo/);
  });

  test("a stream of responses", async () => {
    const { stdout } = await call("test.Echo/Count", '{"text": "3"}');
    expect(stdout.match(/"text": "\d"/g)).toEqual(['"text": "1"', '"text": "2"', '"text": "3"']);
  });

  test("a stream both ways", async () => {
    const { stdout } = await call("test.Echo/Chat", '{"text": "a"} {"text": "b"}');
    expect(stdout.match(/"text": "[AB]"/g)).toEqual(['"text": "A"', '"text": "B"']);
  });

  test("a failure keeps its status", async () => {
    const { stdout, stderr } = await call("test.Echo/Fail", "{}");
    expect(stdout + stderr).toMatch(/Code: FailedPrecondition\s+Message: not today/);
  });
});

describe("ws", () => {
  test("messages of every kind, and the close with its code", async () => {
    const { port } = await startWebSocketBackend((socket) => {
      socket.on("message", (data: Buffer, isBinary) => {
        if (data.toString() === "bye") socket.close(4_001, "as you wish");
        else socket.send(data, { binary: isBinary });
      });
    });
    const gateway = await startGateway(manifests(gatewayManifest(), route(port)));
    const socket = new WebSocket(gateway.url().replace("http:", "ws:"));
    onTestFinished(() => socket.terminate());
    const received: (readonly [length: number, isBinary: boolean])[] = [];
    const closed = new Promise((resolve) => socket.on("close", (code, reason) => resolve([code, String(reason)])));
    socket.on("message", (data: Buffer, isBinary) => {
      received.push([data.length, isBinary]);
      if (received.length === 3) socket.send("bye");
    });
    socket.on("open", () => {
      socket.send("text");
      socket.send(Buffer.alloc(200_000));
      socket.send("");
    });
    expect(await closed).toEqual([4_001, "as you wish"]);
    expect(received).toEqual([
      [4, false],
      [200_000, true],
      [0, false],
    ]);
  });
});
