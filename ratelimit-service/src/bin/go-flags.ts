/** Flags as Go's package flag reads them: `-name value`, `--name=value`, and a switch alone. */
import { flag } from "../settings/kinds.ts";

/** `text` takes a value, `switch` takes none or `=true` and `=false`. */
export type FlagKind = "text" | "switch";

/** The result of reading arguments. Go's programs print `usage` and exit with 2. */
export type ReadFlags =
  /** The values of each flag that was given, in their order; `true` or `false` for a switch. */
  | { readonly kind: "flags"; readonly flags: ReadonlyMap<string, readonly string[]> }
  /** The error and the list of the accepted flags. */
  | { readonly kind: "usage"; readonly text: string };

/** @param kinds the accepted flags, by name */
export function readFlags(argv: readonly string[], kinds: Readonly<Record<string, FlagKind>>): ReadFlags {
  const flags = new Map<string, string[]>();
  const remaining = [...argv];
  for (let argument = remaining.shift(); argument !== undefined; argument = remaining.shift()) {
    const [, name = "", equals, inline = ""] = /^--?([\w-]+)(=)?([\s\S]*)$/.exec(argument) ?? [];
    const kind = kinds[name];
    if (kind === undefined) return usage(`${argument} is not a flag`, kinds);
    const value = equals !== undefined ? inline : kind === "switch" ? "true" : remaining.shift();
    if (value === undefined) return usage(`-${name} needs a value`, kinds);
    const isOn = kind === "switch" ? flag.parse(value) : undefined;
    if (kind === "switch" && isOn === undefined) return usage(`-${name} is ${flag.accepted}`, kinds);
    flags.set(name, [...(flags.get(name) ?? []), isOn === undefined ? value : String(isOn)]);
  }
  return { kind: "flags", flags };
}

function usage(problem: string, kinds: Readonly<Record<string, FlagKind>>): ReadFlags {
  const names = Object.entries(kinds).map(([name, kind]) => `  -${name}${kind === "text" ? " TEXT" : ""}`);
  return { kind: "usage", text: [problem, "accepted flags:", ...names].join("\n") };
}
