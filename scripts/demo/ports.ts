/** The ports of a demo: adds an offset to all of them, and finds the process that uses a port. */
import { once } from "node:events";
import { cp, mkdtemp, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

/** The parsed command line of a demo: print the usage, run with all ports moved by `offset`, or an unknown option. */
export type ParsedArguments =
  | { readonly kind: "help" }
  | { readonly kind: "run"; readonly offset: number }
  | { readonly kind: "invalid"; readonly message: string };

const maxOffset = 40_000;

/** Reads the command line of a demo. @param args without the program and its file */
export function readArguments(args: readonly string[]): ParsedArguments {
  const options = { "port-offset": { type: "string", default: "0" }, help: { type: "boolean", short: "h" } } as const;
  try {
    const { values } = parseArgs({ args: [...args], options });
    if (values.help === true) return { kind: "help" };
    const offset = Number(values["port-offset"]);
    if (Number.isInteger(offset) && offset >= 0 && offset <= maxOffset) return { kind: "run", offset };
  } catch {
    // An option that does not exist.
  }
  const message = `cannot read the options ${JSON.stringify(args.join(" "))}, accepted are --port-offset N, a whole number from 0 to ${maxOffset}, and --help`;
  return { kind: "invalid", message };
}

/** Returns the ports with `offset` added to each. */
export function moved<Name extends string>(
  usual: Readonly<Record<Name, number>>,
  offset: number,
): Record<Name, number> {
  const entries = Object.entries<number>(usual).map(([name, port]) => [name, port + offset]);
  // The names are those of `usual`.
  return Object.fromEntries(entries) as Record<Name, number>;
}

/** Copies a folder, with the ports in every manifest moved by `offset`. @returns the path of the copy */
export async function copyMoved(folder: string, usual: readonly number[], offset: number): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), "gateway-proxy-demo-"));
  await cp(folder, copy, { recursive: true });
  const files = await readdir(copy, { recursive: true });
  for (const file of files.filter((name) => name.endsWith(".yaml"))) {
    const text = await readFile(join(copy, file), "utf8");
    const edited = text.replaceAll(/(?<=\bport: |:)\d{4,5}\b/g, (port) =>
      usual.includes(Number(port)) ? String(Number(port) + offset) : port,
    );
    await writeFile(join(copy, file), edited);
  }
  return copy;
}

/** An address on which a demo listens. */
export interface Place {
  readonly address: string;
  readonly port: number;
  /** The server that listens there: `the gateway`. */
  readonly use: string;
}

/** Returns a line for each address that is in use, with the process that uses it if it can be found. */
export async function takenPlaces(places: readonly Place[]): Promise<readonly string[]> {
  const lines = await Promise.all(
    places.map(async ({ address, port, use }) => {
      if (await isFree(port, address)) return [];
      const holder = await holderOf(port);
      return [`  ${address}:${port}, for ${use}, is taken${holder === undefined ? "" : ` by ${holder}`}`];
    }),
  );
  return lines.flat();
}

/** Whether a port of an address can be listened on. */
export async function isFree(port: number, address = "127.0.0.1"): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, address);
    await once(server, "listening");
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

/**
 * Returns the process that listens on a port, or has a connection from it, by /proc of Linux; undefined on other
 * systems and for processes of other users.
 */
async function holderOf(port: number): Promise<string | undefined> {
  const tables = await Promise.all(
    ["tcp", "tcp6"].map((table) => readFile(`/proc/net/${table}`, "utf8").catch(() => "")),
  );
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = tables.flatMap((table) => table.split("\n")).map((row) => row.trim().split(/\s+/));
  const users = rows.filter(([, local = ""]) => local.endsWith(suffix));
  const listening = users.filter(([, , , state]) => state === listenState);
  const holders = listening.length > 0 ? listening : users;
  const sockets = new Set(holders.map((row) => `socket:[${row[inodeColumn] ?? ""}]`));
  for (const pid of await readdir("/proc").catch(() => [])) {
    if (!/^\d+$/.test(pid)) continue;
    const files = await readdir(`/proc/${pid}/fd`).catch(() => []);
    const links = await Promise.all(files.map((file) => readlink(`/proc/${pid}/fd/${file}`).catch(() => "")));
    if (!links.some((link) => sockets.has(link))) continue;
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    return `process ${pid} (${command.replaceAll("\0", " ").trim().slice(0, 60)})`;
  }
  return undefined;
}

/** Columns of a row in /proc/net/tcp (proc(5)). */
const listenState = "0A";
const inodeColumn = 9;
