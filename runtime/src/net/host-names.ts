/**
 * Resolves host names to addresses: by the hosts file, then by DNS with the search domains of `resolv.conf`.
 *
 * `dns.lookup` does the same by `getaddrinfo`, which occupies a thread of the process for as long as a name server
 * takes. The process has four such threads, and the decompression of responses needs the same ones. A DNS query
 * occupies none.
 */
import { readFileSync, statSync } from "node:fs";
import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";

/** The addresses of a name at one time. */
export interface ResolvedName {
  /** IP addresses of both families; never empty. */
  readonly addresses: readonly string[];
  readonly ttlMs: number;
}

/** Rejects if a name has no address or no name server responds. */
export type ResolveName = (host: string) => Promise<ResolvedName>;

/** The sources of addresses; tests replace those of the system. */
export interface NameResolverOptions {
  /** Addresses of name servers, with an optional port. Default: those of the system. */
  readonly servers?: readonly string[];
  /** Default: `/etc/hosts`. */
  readonly hostsFile?: string;
  /** Default: `/etc/resolv.conf`. */
  readonly resolverFile?: string;
}

/** For names without a time to live: those of the hosts file. */
const unknownTtlMs = 30_000;

/** Creates a function that resolves names. It keeps no result. */
export function createNameResolver({ servers, hostsFile, resolverFile }: NameResolverOptions = {}): ResolveName {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  if (servers !== undefined) resolver.setServers(servers);
  const hosts = cachedFile(hostsFile ?? "/etc/hosts", parseHosts);
  const searchDomains = cachedFile(resolverFile ?? "/etc/resolv.conf", parseSearchDomains);
  return async (host) => {
    const name = host.replace(/\.$/, "").toLowerCase();
    if (isIP(name) !== 0) return { addresses: [name], ttlMs: unknownTtlMs };
    const known = hosts().get(name) ?? (isLocalhost(name) ? ["127.0.0.1", "::1"] : undefined);
    if (known !== undefined) return { addresses: reachable(known), ttlMs: unknownTtlMs };
    const names = host.endsWith(".") ? [name] : withSearchDomains(name, searchDomains());
    const causes: string[] = [];
    for (const candidate of names) {
      const found = await query(resolver, candidate);
      if (typeof found !== "string") return found;
      causes.push(`${candidate}: ${found}`);
    }
    throw new Error(`no address found for ${host} (${causes.join(", ")})`);
  };
}

/** Resolves a name with the configuration of the system. */
export const resolveName: ResolveName = createNameResolver();

/** RFC 6761 §6.3. */
function isLocalhost(name: string): boolean {
  return name === "localhost" || name.endsWith(".localhost");
}

/** The names to query, in order: a name without a dot is first a name of the search domains (resolv.conf(5)). */
function withSearchDomains(name: string, domains: readonly string[]): readonly string[] {
  const inDomains = domains.map((domain) => `${name}.${domain}`);
  return name.includes(".") ? [name, ...inDomains] : [...inDomains, name];
}

/** Queries the addresses of both families. Returns the error codes if there is none. */
async function query(resolver: Resolver, name: string): Promise<ResolvedName | string> {
  const [ipv4, ipv6] = await Promise.allSettled([
    resolver.resolve4(name, { ttl: true }),
    resolver.resolve6(name, { ttl: true }),
  ]);
  const records = [ipv4, ipv6].flatMap((each) => (each.status === "fulfilled" ? each.value : []));
  if (records.length > 0) {
    const addresses = reachable(records.map(({ address }) => address));
    return { addresses, ttlMs: Math.min(...records.map(({ ttl }) => ttl)) * 1_000 };
  }
  const codes = [ipv4, ipv6].flatMap((each) => (each.status === "rejected" ? errorCode(each.reason) : []));
  return [...new Set(codes)].join(" ") || "no records";
}

function errorCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : String(error);
}

/** Leaves out addresses of a family of which the machine has no address, unless none is left (RFC 6724 §5). */
function reachable(addresses: readonly string[]): readonly string[] {
  const own = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const families = new Set(own.filter(({ internal, scopeid }) => !internal && !scopeid).map(({ family }) => family));
  const isReachable = (address: string): boolean =>
    families.has(address.includes(":") ? "IPv6" : "IPv4") || isLoopback(address);
  const reachableAddresses = addresses.filter(isReachable);
  return reachableAddresses.length === 0 ? addresses : reachableAddresses;
}

function isLoopback(address: string): boolean {
  return address === "::1" || address.startsWith("127.");
}

/** Returns a function that reads a file, again after each change of it. A file that cannot be read is empty. */
function cachedFile<Content>(path: string, parse: (text: string) => Content): () => Content {
  let changedMs = -1;
  let content = parse("");
  return () => {
    const foundMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? -1;
    if (foundMs === changedMs) return content;
    changedMs = foundMs;
    content = parse(textOf(path));
    return content;
  };
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Reads addresses by name: lines of an address and names, with comments after `#` (hosts(5)). */
function parseHosts(text: string): ReadonlyMap<string, readonly string[]> {
  const hosts = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [address = "", ...names] = wordsOf(line);
    if (isIP(address) === 0) continue;
    for (const name of names) {
      const addresses = hosts.get(name.toLowerCase()) ?? [];
      if (!addresses.includes(address)) addresses.push(address);
      hosts.set(name.toLowerCase(), addresses);
    }
  }
  return hosts;
}

/** Reads the domains of the last line with `search` or `domain` (resolv.conf(5)). */
function parseSearchDomains(text: string): readonly string[] {
  const lines = text.split("\n").map((line) => wordsOf(line));
  const [, ...domains] = lines.findLast(([keyword]) => keyword === "search" || keyword === "domain") ?? [];
  return domains.map((domain) => domain.replace(/\.$/, "").toLowerCase()).filter((domain) => domain !== "");
}

function wordsOf(line: string): readonly string[] {
  return line
    .replace(/[#;].*/, "")
    .split(/\s+/)
    .filter((word) => word !== "");
}
