/**
 * Hop-by-hop header fields, which must not be forwarded (RFC 9110 §7.6.1): a fixed set, and those that the message's
 * `Connection` field names.
 */

/** Compares a field name with a lower-case one of the same length. */
export function isName(name: string, lowerCase: string): boolean {
  return name === lowerCase || name.toLowerCase() === lowerCase;
}

/**
 * Whether a field is never forwarded unchanged, whatever `Connection` names. This includes `TE`; the caller checks
 * whether it has `trailers`. The length decides most names without comparing a character.
 */
export function isHopByHop(name: string): boolean {
  switch (name.length) {
    case 2:
      return isName(name, "te");
    case 7:
      return isName(name, "upgrade");
    case 10:
      return isName(name, "connection") || isName(name, "keep-alive");
    case 16:
      return isName(name, "proxy-connection");
    case 17:
      return isName(name, "transfer-encoding");
    default:
      return false;
  }
}

/**
 * Returns the fields that `Connection` names beyond the fixed set, in lower case; undefined where there are none, as in
 * nearly every message (`keep-alive`, `close`). Fields of message framing and of the request's origin are never among
 * them: a client must not be able to remove fields that a trusted proxy has written.
 */
export function connectionOptions(rawHeaders: readonly string[]): ReadonlySet<string> | undefined {
  let options: Set<string> | undefined;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length !== 10 || !isName(name, "connection")) continue;
    const value = rawHeaders[at + 1] ?? "";
    // The values of nearly all clients need no parsing.
    if (value === "keep-alive" || value === "close") continue;
    for (const part of value.split(",")) {
      const option = part.trim().toLowerCase();
      if (isOrdinaryOption(option)) continue;
      options ??= new Set();
      options.add(option);
    }
  }
  return options;
}

const isKept: ReadonlySet<string> = new Set([
  ...["content-length", "host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-request-id"],
]);

function isOrdinaryOption(option: string): boolean {
  if (option === "" || option === "close" || isHopByHop(option)) return true;
  return isKept.has(option);
}

/** Whether a `TE` field accepts trailers; its other members concern the coding of one connection. */
export function acceptsTrailers(te: string): boolean {
  return te.split(",").some((part) => part.trim().toLowerCase() === "trailers");
}
