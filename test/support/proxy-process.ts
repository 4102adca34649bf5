/**
 * The proxy as a process, as users run it: a folder of manifests, settings on the command line, standard output read
 * line by line. Everything listens on free ports of 127.0.0.1; the process is stopped when the test ends.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { freePort } from "./free-port.ts";
import { programFile } from "./program-file.ts";

const mainFile = programFile("proxy", "proxy");

export interface ProxyProcess {
  readonly directory: string;
  readonly pid: number;
  /** `http://127.0.0.1:PORT` of the metrics and of the readiness page. */
  readonly stats: string;
  readonly readiness: string;
  /** `http://127.0.0.1:PORT` of the admin server. */
  readonly admin: string;
  /** Lines of standard output so far, parsed. */
  readonly log: readonly LogLine[];
  /** Standard error so far. */
  stderr(): string;
  /**
   * Resolves with the first line, earlier or later, that `accepts` returns true for; rejects if the process ends before
   * it.
   */
  logged(accepts: (line: LogLine) => boolean): Promise<LogLine>;
  write(file: string, text: string): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  /** Resolves with the exit code when the process has ended. */
  readonly exited: Promise<number | null>;
}

export type LogLine = Readonly<Record<string, unknown>>;

/**
 * Starts the proxy on a new folder with `files`, by name; does not wait for it to be ready. It has one worker unless
 * `args` has another number.
 *
 * @param env adds to the environment of this process.
 * @param cgroup folder of a control group that the process starts in.
 * @param main the program, if it is not the one of the sources.
 * @param openFiles its limit of open files; absent: that of this process.
 */
export async function spawnProxy(
  files: Readonly<Record<string, string>>,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  cgroup?: string,
  main = mainFile,
  openFiles?: number,
): Promise<ProxyProcess> {
  const directory = await mkdtemp(join(tmpdir(), "gatewayproxy-"));
  const write = (file: string, text: string): Promise<void> => writeFile(join(directory, file), text);
  await Promise.all(Object.entries(files).map(([file, text]) => write(file, text)));
  return await spawnWith(["--config-dir", directory, ...args], directory, env, cgroup, main, openFiles);
}

/** Starts the proxy on a cluster, for one Gateway; does not wait for it to be ready. `env` adds to the environment. */
export async function spawnClusterProxy(
  kubeconfig: string,
  gateway: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<ProxyProcess> {
  const directory = await mkdtemp(join(tmpdir(), "gatewayproxy-"));
  const settings = ["--kubernetes", "--gateway", gateway, ...args];
  return await spawnWith(settings, directory, { ...env, KUBECONFIG: kubeconfig });
}

async function spawnWith(
  args: readonly string[],
  directory: string,
  env: Readonly<Record<string, string>>,
  cgroup?: string,
  main = mainFile,
  openFiles?: number,
): Promise<ProxyProcess> {
  const addresses = [await freePort(), await freePort(), await freePort()].map((port) => `127.0.0.1:${port}`);
  const [stats = "", readiness = "", admin = ""] = addresses;
  const pages = ["--stats-address", stats, "--readiness-address", readiness, "--admin-address", admin];
  // A second worker takes as much processor time as half of the rest of a start.
  const workers = args.includes("--workers") ? [] : ["--workers", "1"];
  const command = [process.execPath, main, ...pages, ...workers, ...args];
  const preparations = [
    ...(cgroup === undefined ? [] : [`echo $$ > ${cgroup}/cgroup.procs`]),
    ...(openFiles === undefined ? [] : [`ulimit -n ${openFiles}`]),
  ];
  const preparing = ["/bin/sh", "-c", [...preparations, 'exec "$0" "$@"'].join(" && ")];
  const [program = "", ...parameters] = preparations.length === 0 ? command : [...preparing, ...command];
  const child = spawn(program, parameters, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  const output = readOutput(child);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await output.exited;
    await rm(directory, { recursive: true });
  });
  return {
    ...output,
    directory,
    pid: child.pid ?? 0,
    stats: `http://${stats}`,
    readiness: `http://${readiness}`,
    admin: `http://${admin}`,
    write: (file, text) => writeFile(join(directory, file), text),
    kill: (signal) => void child.kill(signal),
  };
}

/** Starts the proxy and resolves when it logs that it is ready. */
export async function startProxy(...args: Parameters<typeof spawnProxy>): Promise<ProxyProcess> {
  const proxy = await spawnProxy(...args);
  await proxy.logged(({ msg }) => msg === "ready");
  return proxy;
}

function readOutput(child: ChildProcess): Pick<ProxyProcess, "log" | "stderr" | "logged" | "exited"> {
  const log: LogLine[] = [];
  const awaiting = new Set<() => void>();
  let stderr = "";
  let hasEnded = false;
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  const notify = (): void => {
    for (const check of awaiting) check();
  };
  if (child.stdout !== null) {
    createInterface(child.stdout).on("line", (line) => {
      log.push(JSON.parse(line) as LogLine);
      notify();
    });
  }
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  void exited.then(() => {
    hasEnded = true;
    notify();
  });
  return {
    log,
    exited,
    stderr: () => stderr,
    logged: (accepts) =>
      new Promise((resolve, reject) => {
        const check = (): void => {
          const line = log.find(accepts);
          if (line === undefined && !hasEnded) return;
          awaiting.delete(check);
          if (line !== undefined) resolve(line);
          else reject(new Error(`the proxy ended before it logged the expected line; standard error:\n${stderr}`));
        };
        awaiting.add(check);
        check();
      }),
  };
}
