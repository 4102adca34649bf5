/** The programs of a benchmark run: started on loopback, measured by /proc, and stopped by their own id. Linux only. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** CPU time of a process with all its threads, ended ones included, in microseconds. */
export interface CpuTime {
  readonly userUs: number;
  readonly systemUs: number;
}

/** A measured program or one beside it. */
export interface RunningProgram {
  readonly name: string;
  readonly pid: number;
  cpu(): CpuTime;
  /** The current resident memory in bytes. */
  residentBytes(): number;
  hasEnded(): boolean;
  /** The output so far, for error messages. */
  output(): string;
  /** Sends SIGTERM to the process, SIGKILL after 5 s, and returns when it has ended. */
  stop(): Promise<void>;
}

/** Starts a program; `name` is for messages. The child ends with this process even if `stop` is never called. */
export function startProgram(
  name: string,
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): RunningProgram {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  const lines: string[] = [];
  child.stdout.on("data", (chunk: Buffer) => lines.push(chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => lines.push(chunk.toString()));
  child.on("error", (error) => lines.push(error.message));
  const endWithParent = () => child.kill("SIGKILL");
  process.once("exit", endWithParent);
  exitAtSignal();
  const pid = child.pid;
  if (pid === undefined) throw new Error(`cannot start ${name}: ${command}`);
  return {
    name,
    pid,
    cpu: () => readCpuTime(pid),
    residentBytes: () => readResidentBytes(pid),
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    output: () => lines.join(""),
    async stop() {
      process.off("exit", endWithParent);
      await stopChild(child);
    },
  };
}

/** A process that is killed by a signal emits no "exit". */
function exitAtSignal(): void {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    if (process.listenerCount(signal) === 0) process.once(signal, () => process.exit(1));
  }
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGTERM");
  const insist = setTimeout(() => child.kill("SIGKILL"), 5_000);
  await gone;
  clearTimeout(insist);
}

/** Kernel ticks per second, the unit of CPU time in /proc. */
const ticksPerSecond = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

function readCpuTime(pid: number): CpuTime {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The second field is the command in parentheses and may contain spaces; proc(5) counts utime as 14 and stime as 15.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const toUs = 1_000_000 / ticksPerSecond;
  return { userUs: Number(fields[11]) * toUs, systemUs: Number(fields[12]) * toUs };
}

function readResidentBytes(pid: number): number {
  const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kibibytes) * 1024;
}

/** `count` different ports that are free on 127.0.0.1 at the moment. */
export async function freePorts(count: number): Promise<number[]> {
  // All are open until all are known, so that none is returned twice.
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, "127.0.0.1");
      await once(server, "listening");
      return server;
    }),
  );
  // A server that listens on a TCP port has an AddressInfo, never a pipe name.
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/**
 * Repeats `attempt` until it does not throw. Rejects if the program has ended or after `timeoutMs`, with the last error
 * and the output of the program.
 */
export async function untilReady(
  program: RunningProgram,
  attempt: () => Promise<void>,
  timeoutMs = 20_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (program.hasEnded() || performance.now() > deadline) {
        const message = error instanceof Error ? error.message : String(error);
        throw new Error(`${program.name} is not ready: ${message}\nIts output:\n${program.output()}`, {
          cause: error,
        });
      }
      await delay(50);
    }
  }
}
