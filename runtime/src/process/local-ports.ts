/** The local ports from which the system chooses those of connections to servers. */
import { readFileSync } from "node:fs";

/** The range of Linux, unless it is configured. */
const usualCount = 28_232;

/** Returns their number (`net.ipv4.ip_local_port_range`, also for IPv6); that of a usual Linux on other systems. */
export function localPortCount(): number {
  try {
    const [first = "", last = ""] = readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").trim().split(/\s+/);
    const count = Number(last) - Number(first) + 1;
    return Number.isSafeInteger(count) && count > 0 ? count : usualCount;
  } catch {
    return usualCount;
  }
}
