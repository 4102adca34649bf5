/** memcached servers for tests: started on free ports of 127.0.0.1, stopped by their own process id. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { userInfo } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "./free-port.ts";
import { stopProcess } from "./stop-process.ts";

export interface MemcachedServer {
  readonly address: string;
  readonly port: number;
  /** Stops responding without closing a connection, and resumes. */
  readonly pause: () => void;
  readonly resume: () => void;
  /** Kills it, with the loss of all data; `start` starts an empty one on the same port. */
  readonly kill: () => Promise<void>;
  readonly start: () => Promise<void>;
  /** Every value by its key, with the seconds to its expiry; -1 for none. */
  readonly entries: () => Promise<ReadonlyMap<string, { readonly value: string; readonly secondsLeft: number }>>;
  /** Sends one command on a new connection; resolves with the first line of the reply. */
  readonly command: (line: string) => Promise<string>;
}

/**
 * Starts `binary` and resolves when it accepts connections.
 *
 * @param args further options of memcached
 */
export async function startMemcached(binary: string, args: readonly string[] = []): Promise<MemcachedServer> {
  const port = await freePort();
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    // Run by root, memcached needs the name of the user.
    const options = ["-l", "127.0.0.1", "-p", String(port), "-U", "0", "-u", userInfo().username, ...args];
    const started = spawn(binary, options, { stdio: "ignore" });
    child = started;
    while (!(await acceptsConnections(port))) {
      if (started.exitCode !== null) throw new Error(`${binary} ended with status ${started.exitCode}`);
      await sleep(10);
    }
  }

  async function kill(): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  async function entries() {
    const dump = await exchange(port, "lru_crawler metadump all", "END\r\n");
    const found = new Map<string, { value: string; secondsLeft: number }>();
    for (const [, key = ""] of dump.matchAll(/^key=(\S+)/gm)) {
      const name = decodeURIComponent(key);
      const [, secondsLeft = "0", value = ""] =
        / t(-?\d+)\r\n(.*)\r\n/.exec(await exchange(port, `mg ${name} v t`, /^(?:EN\r\n|VA .*\r\n.*\r\n)$/)) ?? [];
      found.set(name, { value: value.trim(), secondsLeft: Number(secondsLeft) });
    }
    return found;
  }

  await start();
  return {
    address: `127.0.0.1:${port}`,
    port,
    pause: () => stopProcess(child),
    resume: () => child?.kill("SIGCONT"),
    kill,
    start,
    entries,
    command: async (line) => (await exchange(port, line, "\r\n")).trim(),
  };
}

/** The reply to `line`, up to `end`. */
async function exchange(port: number, line: string, end: string | RegExp): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write(`${line}\r\n`);
  let text = "";
  for await (const chunk of socket) {
    text += String(chunk);
    if (typeof end === "string" ? text.endsWith(end) : end.test(text)) break;
  }
  socket.destroy();
  return text;
}

function acceptsConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}
