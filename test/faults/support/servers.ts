/** The programs around a proxy that faults apply to: a backend process, and a wire that can be broken. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { freePort } from "../../support/free-port.ts";
import { stopProcess } from "../../support/stop-process.ts";

export interface BackendProcess {
  readonly port: number;
  readonly kill: () => Promise<void>;
  readonly start: () => Promise<void>;
  readonly pause: () => void;
  readonly resume: () => void;
}

/** Responds to every request with 200 and a body of 10 KB. */
const program = `
const body = Buffer.alloc(10_000, "x");
require("node:http").createServer((request, response) => response.end(body))
  .listen(Number(process.argv[1]), "127.0.0.1", () => console.log("listening"));
`;

export async function startBackendProcess(): Promise<BackendProcess> {
  const port = await freePort();
  let child: ChildProcess | undefined;
  async function start(): Promise<void> {
    const started = spawn(process.execPath, ["-e", program, String(port)], { stdio: ["ignore", "pipe", "inherit"] });
    child = started;
    await once(started.stdout, "data");
  }
  async function kill(): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }
  onTestFinished(kill);
  await start();
  return { port, start, kill, pause: () => stopProcess(child), resume: () => void child?.kill("SIGCONT") };
}

/** The treatment of the bytes between a client and a server. */
export type WireMode =
  | { readonly kind: "pass" }
  /** Each direction takes half of it. */
  | { readonly kind: "slow"; readonly roundTripMs: number }
  /** The server's bytes are replaced by others. */
  | { readonly kind: "garbage" };

export interface Wire {
  readonly port: number;
  set(mode: WireMode): void;
}

/** A port of 127.0.0.1 that forwards to `target`, until the test ends. */
export async function startWire(target: number): Promise<Wire> {
  let mode: WireMode = { kind: "pass" };
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (bytes: Buffer) => send(upstream, bytes));
    upstream.on("data", (bytes: Buffer) => send(client, mode.kind === "garbage" ? garbled(bytes) : bytes));
  });
  function send(to: Socket, bytes: Buffer): void {
    if (mode.kind === "slow") setTimeout(() => to.write(bytes), mode.roundTripMs / 2);
    else to.write(bytes);
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the wire has no port");
  return {
    port: address.port,
    set(next) {
      mode = next;
    },
  };
}

/** The same number of bytes, without a meaning. */
function garbled(bytes: Buffer): Buffer {
  return Buffer.from(bytes.map((byte, at) => byte ^ (0x5a + at)));
}
