/**
 * The arguments that the service reads. envoyproxy/ratelimit reads none and ignores whatever it is given, and manifests
 * for it have some: that of Envoy AI Gateway passes a flag of its controller.
 */
import type { Settings } from "@gatewayproxy/runtime/settings";

/** The arguments of a command line, in two groups. */
export interface KnownArguments {
  /** Options of the service with their values, in their order. */
  readonly known: readonly string[];
  /** Names of unknown options, and arguments that are not options. */
  readonly ignored: readonly string[];
}

/** Splits `argv` into the options of `settings` (and `--help`) with their values, and all other arguments. */
export function knownArguments(argv: readonly string[], settings: Settings): KnownArguments {
  const takesValue = new Map<string | undefined, boolean>([["help", false]]);
  for (const { flag, kind } of Object.values(settings)) {
    if (flag !== undefined) takesValue.set(flag, kind.placeholder !== "");
  }
  const known: string[] = [];
  const ignored: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const argument = argv[i] ?? "";
    const [, name, equals] = /^--([^=]+)(=)?/.exec(argument) ?? [];
    const value = takesValue.get(name);
    if (value === undefined && argument !== "-h") {
      ignored.push(name === undefined ? argument : `--${name}`);
      continue;
    }
    known.push(argument);
    if (value === true && equals === undefined && i + 1 < argv.length) known.push(argv[++i] ?? "");
  }
  return { known, ignored };
}
