/** Describes why the process cannot listen on an address. */
import { errorMessage } from "../text/thrown-value.ts";

/** Returns a description with the system's message, which contains the address. @param error from `listen`. */
export function describeListenError(error: unknown): string {
  const message = errorMessage(error);
  if (message.includes("EADDRINUSE")) return `the port is taken by another process (${message})`;
  if (message.includes("EACCES")) return `the system does not permit this process to listen there (${message})`;
  if (message.includes("EADDRNOTAVAIL")) return `this machine has no such address (${message})`;
  return message;
}
