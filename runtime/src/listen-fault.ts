/** Why an address cannot be listened on, in words for the settings that name it. */

/** @param error of `listen`; what it said stands behind the words, for it has the address. */
export function describeListenFault(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  if (message.includes("EADDRINUSE")) return `the port is taken by another process (${message})`;
  if (message.includes("EACCES")) return `the system does not allow to listen there (${message})`;
  if (message.includes("EADDRNOTAVAIL")) return `this machine has no such address (${message})`;
  return message;
}
