/** Returns the time that `run` takes of the processor, in milliseconds. Other load of the machine hardly changes it. */
export function cpuMsOf(run: () => unknown): number {
  const before = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
