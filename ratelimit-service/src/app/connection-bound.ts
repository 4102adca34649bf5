/** The bound of the connections to one port, which open files limit as MAX_CONNECTIONS does. */
import { openFileLimit } from "@gatewayproxy/runtime/open-files";

/** The service has three ports. The rest is for files and for connections to its store. */
const portPart = 1 / 4;

/** @param configured the setting. @param openFiles that the process may have; undefined for no limit. */
export function connectionBound(configured: number, openFiles = openFileLimit()): number {
  if (openFiles === undefined) return configured;
  return Math.min(configured, Math.max(1, Math.floor(openFiles * portPart)));
}
