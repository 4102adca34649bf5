/** Stops a process that a test has started, so that it responds to nothing and closes no connection. */
import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** The most looks at the threads of a process, each of which takes some microseconds. */
const maxLooks = 1_000_000;

/**
 * Sends SIGSTOP, and returns when every thread has stopped. A thread on another processor may otherwise respond to what
 * is sent next.
 *
 * @throws `Error` if the process does not stop.
 */
export function stopProcess(child: ChildProcess | undefined): void {
  if (child?.pid === undefined || !child.kill("SIGSTOP")) return;
  if (process.platform !== "linux") return;
  for (let looks = 0; looks < maxLooks; looks++) if (isStopped(child.pid)) return;
  throw new Error(`process ${child.pid} has not stopped`);
}

/** Whether all threads of a process are stopped (proc_pid_stat(5): the state follows the name in parentheses). */
function isStopped(pid: number): boolean {
  const tasks = `/proc/${pid}/task`;
  return readdirSync(tasks).every((task) => {
    const stat = readFileSync(`${tasks}/${task}/stat`, "latin1");
    return stat.startsWith("T", stat.lastIndexOf(")") + 2);
  });
}
