/** Parses resources such as `gateway/web` on the command line. */
import { CommandError, exitCodes } from "../command-error.ts";

/** The proxy that a command is about. */
export type Target =
  | { readonly kind: "gateway"; readonly name: string }
  | { readonly kind: "pod"; readonly name: string };

const kinds: ReadonlyMap<string, Target["kind"]> = new Map([
  ["gateway", "gateway"],
  ["gateways", "gateway"],
  ["gtw", "gateway"],
  ["pod", "pod"],
  ["pods", "pod"],
  ["po", "pod"],
]);

/** Whether an argument is a resource, not a log level, request id or the like. */
export function isTarget(text: string): boolean {
  return kindOf(text.split("/")[0] ?? "") !== undefined && text.includes("/");
}

/** Parses `gateway/NAME` or `pod/NAME`, with kubectl's short names. Throws a usage error. */
export function parseTarget(text: string): Target {
  const [kindText = "", name = "", ...rest] = text.split("/");
  const kind = kindOf(kindText);
  if (kind !== undefined && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(name) && rest.length === 0) return { kind, name };
  throw new CommandError({
    message: `read the resource ${JSON.stringify(text)}: it is not of the form gateway/NAME or pod/NAME`,
    advice: ["name the Gateway whose proxy is meant, such as gateway/web"],
    exitCode: exitCodes.usage,
  });
}

/** Kinds are case-insensitive, as in kubectl. */
function kindOf(text: string): Target["kind"] | undefined {
  return kinds.get(text.toLowerCase());
}

/** Renders a resource as a user would type it. */
export function renderTarget({ kind, name }: Target): string {
  return `${kind}/${name}`;
}
