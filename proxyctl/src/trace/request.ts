/** Parses the request that `proxyctl trace` sends, in curl's syntax: `-X POST -H 'a: b' -d '{}' http://host/path`. */
import { readFile } from "node:fs/promises";
import { Command } from "commander";
import { CommandError, exitCodes, textOf } from "../command-error.ts";

/** A request to send. */
export interface TraceRequest {
  readonly url: URL;
  /** The port of the URL, or the default of its scheme. Undefined for a path alone. */
  readonly port: number | undefined;
  readonly method: string;
  /** Fields in the order to send, `host` first. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer | undefined;
  readonly trust: CertificateTrust;
}

/** The certificates that are accepted from an https listener for the URL's host. */
export type CertificateTrust =
  /** Those of the authorities that Node.js trusts. */
  | { readonly kind: "known" }
  /** Those of these authorities, as PEM. */
  | { readonly kind: "authorities"; readonly pem: Buffer }
  /** Any certificate, for any host. */
  | { readonly kind: "any" };

/** The supported flags of curl, as commander parses them. */
interface RequestFlags {
  readonly request?: string;
  readonly header: readonly string[];
  readonly data: readonly string[];
  readonly dataRaw: readonly string[];
  readonly dataBinary: readonly string[];
  readonly json: readonly string[];
  readonly insecure?: true;
  readonly cacert?: string;
}

const form = "http://HOST/PATH or /PATH, with -X, -H, -d, --json, -k and --cacert as curl has them";

/** Adds curl's flags. Flags without an effect here are accepted, so that a curl command can be pasted. */
function requestCommand(): Command {
  const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];
  return new Command("request")
    .argument("<url>")
    .option("-X, --request <method>")
    .option("-H, --header <field>", "", collect, [])
    .option("-d, --data <text>", "", collect, [])
    .option("--data-raw <text>", "", collect, [])
    .option("--data-binary <text>", "", collect, [])
    .option("--json <text>", "", collect, [])
    .option("-k, --insecure")
    .option("--cacert <file>")
    .option("-s, --silent")
    .option("-S, --show-error")
    .option("-i, --include")
    .option("-v, --verbose")
    .option("-N, --no-buffer")
    .helpOption(false)
    .exitOverride()
    .configureOutput({ writeErr: () => undefined, writeOut: () => undefined });
}

/**
 * Parses the arguments after `--`. Throws a usage error. `userAgent` and `requestId` are sent unless the user sets
 * them.
 */
export async function parseRequest(
  args: readonly string[],
  defaults: { readonly userAgent: string; readonly requestId: string },
): Promise<TraceRequest> {
  const command = requestCommand();
  try {
    command.parse(args, { from: "user" });
  } catch (error) {
    throw usage(textOf(error).replace(/^error: /, ""));
  }
  const flags = command.opts<RequestFlags>();
  const { url, port } = parseUrl(command.args[0] ?? "");
  const body = await bodyOf(flags);
  const defaultFields: readonly (readonly [string, string])[] = [
    ["host", url.host],
    ["user-agent", defaults.userAgent],
    ["accept", flags.json.length > 0 ? "application/json" : "*/*"],
    ["x-request-id", defaults.requestId],
    ...(body === undefined
      ? []
      : [["content-type", flags.json.length > 0 ? "application/json" : "application/x-www-form-urlencoded"] as const]),
  ];
  const explicit = flags.header.map(parseHeader);
  const explicitNames = new Set(explicit.map(([name]) => name));
  return {
    url,
    port,
    method: flags.request ?? (body === undefined ? "GET" : "POST"),
    headers: [...defaultFields.filter(([name]) => !explicitNames.has(name)), ...explicit],
    body,
    trust: await trustOf(flags),
  };
}

/** As in curl, `-k` disables all verification. */
async function trustOf({ insecure, cacert }: RequestFlags): Promise<CertificateTrust> {
  if (insecure === true) return { kind: "any" };
  if (cacert === undefined) return { kind: "known" };
  try {
    return { kind: "authorities", pem: await readFile(cacert) };
  } catch (error) {
    throw usage(`the file of --cacert cannot be read: ${textOf(error)}`);
  }
}

/** Returns the value of a field that is sent once. */
export function headerOf({ headers }: TraceRequest, name: string): string | undefined {
  return headers.find(([fieldName]) => fieldName === name)?.[1];
}

/** Parses a URL or a path. A path alone has the host `localhost` and no port. */
function parseUrl(text: string): { readonly url: URL; readonly port: number | undefined } {
  const isPath = text.startsWith("/");
  const whole = isPath ? `http://localhost${text}` : text.includes("://") ? text : `http://${text}`;
  const url = URL.canParse(whole) ? new URL(whole) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.hostname === "") {
    throw usage(`${JSON.stringify(text)} is neither an http or https URL nor a path`);
  }
  if (isPath) return { url, port: undefined };
  return { url, port: url.port !== "" ? Number(url.port) : url.protocol === "https:" ? 443 : 80 };
}

function parseHeader(text: string): readonly [string, string] {
  const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*(.*?)\s*$/s.exec(text) ?? [];
  // A line break in the value could inject another field.
  if (name === undefined || value === undefined || /[\r\n\0]/.test(value)) {
    throw usage(`the header ${JSON.stringify(text)} is not of the form NAME: VALUE`);
  }
  return [name.toLowerCase(), value];
}

/** Returns the body. Several parts are joined as in curl; `@FILE` reads a file. */
async function bodyOf({ data, dataRaw, dataBinary, json }: RequestFlags): Promise<Buffer | undefined> {
  const parts = [
    ...(await Promise.all(data.map(async (text) => stripLines(await contentOf(text), text)))),
    ...dataRaw.map((text) => Buffer.from(text)),
    ...(await Promise.all(dataBinary.map(contentOf))),
  ];
  const forms = parts.flatMap((part, at) => (at === 0 ? [part] : [Buffer.from("&"), part]));
  const all = [...forms, ...(await Promise.all(json.map(contentOf)))];
  return all.length === 0 ? undefined : Buffer.concat(all);
}

async function contentOf(text: string): Promise<Buffer> {
  if (!text.startsWith("@")) return Buffer.from(text);
  try {
    return await readFile(text.slice(1));
  } catch (error) {
    throw usage(`the body's file cannot be read: ${textOf(error)}`);
  }
}

/** As curl's `-d @FILE`, removes line breaks. */
function stripLines(content: Buffer, source: string): Buffer {
  return source.startsWith("@") ? Buffer.from(content.toString("latin1").replaceAll(/[\r\n]/g, ""), "latin1") : content;
}

function usage(found: string): CommandError {
  return new CommandError({
    message: `read the request: ${found}`,
    advice: [`accepted after -- is ${form}`],
    exitCode: exitCodes.usage,
  });
}
