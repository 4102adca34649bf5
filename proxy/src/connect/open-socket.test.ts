import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { AddressGuard, unrestricted } from "@gatewayproxy/runtime/address-rules";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished, test } from "vitest";
import { TestAuthority } from "../../../test/support/certificates.ts";
import { describeWith } from "../../../test/support/describe-with.ts";
import { openSocket } from "./open-socket.ts";

describeWith(["openssl"], "a server of OpenSSL", ({ openssl }) => {
  /** Starts a server that sends a KeyUpdate for each line `k` that it reads, of which it reads one at a time. */
  async function start() {
    const directory = mkdtempSync(join(tmpdir(), "open-socket-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const authority = new TestAuthority(openssl, directory, "authority");
    const { certFile, keyFile } = authority.issue("server", "DNS:a.example");
    const server = spawn(openssl, ["s_server", "-accept", "127.0.0.1:0", "-cert", certFile, "-key", keyFile]);
    const ended = once(server, "exit");
    onTestFinished(async () => {
      server.kill("SIGKILL");
      await ended;
    });
    const port = await new Promise<number>((resolve) => {
      createInterface(server.stdout).on("line", (line) => {
        const [, found] = /^ACCEPT .*:(\d+)$/.exec(line) ?? [];
        if (found !== undefined) resolve(Number(found));
      });
    });
    const changeKeys = (): void => void server.stdin.write("k\n");
    const tls = { hostname: "a.example", authorities: [authority.authority.cert] };
    return { port, changeKeys, tls };
  }

  test("a connection whose server changes its keys without end is closed", async () => {
    const { port, changeKeys, tls } = await start();
    const target = { host: "127.0.0.1", port, tls, clock: new FakeClock(), addresses: new AddressGuard(unrestricted) };
    const { promise: connected, resolve } = Promise.withResolvers<undefined>();
    const socket = openSocket(target, () => resolve(undefined));
    await connected;
    let changes = 0;
    socket.on("keylog", () => {
      changes++;
      if (!socket.destroyed) changeKeys();
    });
    changeKeys();
    expect(await once(socket, "error")).toEqual([new Error("too many KeyUpdate messages of TLS")]);
    expect(changes).toBe(65);
  });
});
