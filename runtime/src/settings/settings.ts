/**
 * Settings of a process. Each is declared once: its flag, its environment variable, the accepted values, its default
 * and its description. The typed values, the errors, `--help` and the table in the docs are made from the declaration.
 */
import { parseArgs } from "node:util";
import type { Problem, Result } from "../text/problem.ts";
import type { SettingKind } from "./setting-kinds.ts";
import { suggest } from "./suggest.ts";

/** The declaration of a setting. */
export interface Setting<T> {
  readonly kind: SettingKind<T> & { readonly isOptional?: true };
  /** The flag without its dashes. Absent for a setting that only the environment can set. */
  readonly flag?: string;
  readonly env: string;
  /** The default as a user would type it. Without a default a setting is required, unless its kind is optional. */
  readonly default?: string;
  /** Describes a default that depends on the machine: `number of CPUs`. */
  readonly defaultText?: string;
  /** Says what the setting does, in one sentence with a full stop. */
  readonly help: string;
}

/** Declarations by the name that the code uses. */
export type Settings = Readonly<Record<string, Setting<unknown>>>;

/** The values of settings, by the names that the code uses. */
export type SettingValues<S extends Settings> = { readonly [K in keyof S]: ValueOf<S[K]["kind"]> };

type ValueOf<K> = K extends SettingKind<unknown> & { readonly isOptional: true }
  ? ReturnType<K["parse"]>
  : K extends SettingKind<unknown>
    ? Exclude<ReturnType<K["parse"]>, undefined>
    : never;

/** The sources of settings. */
export interface SettingSources {
  /** The arguments without the program and its file. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

const helpFlags = ["--help", "-h"];

/** Whether the arguments contain a flag for the help text. `readSettings` ignores these flags. */
export function hasHelpFlag(argv: readonly string[]): boolean {
  return argv.some((argument) => helpFlags.includes(argument));
}

/**
 * Reads settings. A flag overrides its environment variable, which overrides the default. An empty variable counts as
 * unset.
 */
export function readSettings<const S extends Settings>(
  settings: S,
  { argv, env }: SettingSources,
): Result<SettingValues<S>> {
  const { flags, problems } = readFlags(settings, argv);
  const entries = Object.entries(settings).map(([name, setting]) => {
    const found = findText(setting, flags, env);
    if (found !== undefined) return [name, parseSetting(setting, found, problems)];
    if (setting.kind.isOptional !== true) problems.push(missing(setting));
    return [name, undefined];
  });
  if (problems.length > 0) return { ok: false, problems: [...consumedByNpm(settings, env), ...problems] };
  // Without a problem every setting has a value of its own kind.
  return { ok: true, value: Object.fromEntries(entries) as SettingValues<S> };
}

interface SettingText {
  /** The source of the text, for messages: `--workers` or `WORKERS`. */
  readonly source: string;
  readonly text: string;
}

function findText(
  { flag, env: variable, default: defaultValue }: Setting<unknown>,
  flags: ReadonlyMap<string, string>,
  env: SettingSources["env"],
): SettingText | undefined {
  const fromFlag = flag === undefined ? undefined : flags.get(flag);
  if (fromFlag !== undefined) return { source: `--${flag ?? ""}`, text: fromFlag };
  const fromEnv = env[variable];
  if (fromEnv !== undefined && fromEnv !== "") return { source: variable, text: fromEnv };
  return defaultValue === undefined ? undefined : { source: `default of ${variable}`, text: defaultValue };
}

function parseSetting({ kind }: Setting<unknown>, { source, text }: SettingText, problems: Problem[]): unknown {
  const value = kind.parse(text);
  if (value === undefined) {
    problems.push({ path: source, message: kind.explain?.(text) ?? `${JSON.stringify(text)} is not ${kind.accepted}` });
  }
  return value;
}

function missing({ kind, flag, env }: Setting<unknown>): Problem {
  const ways = flag === undefined ? env : `--${flag} ${kind.placeholder} or ${env}`;
  return { path: flag === undefined ? env : `--${flag}`, message: `missing; set ${ways} to ${kind.accepted}` };
}

/** Returns the flags with their texts; the last one of a repeated flag. */
function readFlags(settings: Settings, argv: readonly string[]): { flags: Map<string, string>; problems: Problem[] } {
  const declared = new Map(
    Object.values(settings).flatMap((s) => (s.flag === undefined ? [] : [[s.flag, s] as const])),
  );
  const options = Object.fromEntries(
    Array.from(declared, ([flag, { kind }]) => [
      flag,
      { type: kind.placeholder === "" ? "boolean" : "string" } as const,
    ]),
  );
  const { tokens } = parseArgs({ args: [...argv], options, strict: false, tokens: true });
  const flags = new Map<string, string>();
  const problems: Problem[] = [];
  // An argument after an unknown option was probably meant as its value.
  let followsUnknown = false;
  for (const token of tokens) {
    if (token.kind === "positional" && !followsUnknown) problems.push(unexpected(token.value));
    followsUnknown = token.kind === "option" && !declared.has(token.name);
    if (token.kind !== "option") continue;
    const setting = declared.get(token.name);
    if (helpFlags.includes(token.rawName)) continue;
    if (setting === undefined) {
      problems.push(unknown(token.name, token.rawName, [...declared.keys()]));
    } else if (token.value === undefined && setting.kind.placeholder !== "") {
      problems.push({ path: token.rawName, message: `needs a value: ${setting.kind.accepted}` });
    } else {
      flags.set(token.name, token.value ?? "true");
    }
  }
  return { flags, problems };
}

function unexpected(argument: string): Problem {
  return { message: `unexpected argument ${JSON.stringify(argument)}: a value follows its option, see --help` };
}

function unknown(name: string, rawName: string, flags: readonly string[]): Problem {
  const suggestion = suggest(name, [...flags, "help"]);
  const hint = suggestion === undefined ? "--help lists all options" : `did you mean --${suggestion}?`;
  return { path: rawName, message: `unknown option; ${hint}` };
}

/** Reports options that npm consumed because no `--` came before them; only npm's own variable is left of them. */
function consumedByNpm(settings: Settings, env: SettingSources["env"]): readonly Problem[] {
  const consumed = Object.values(settings).find(
    ({ flag }) => flag !== undefined && env[`npm_config_${flag.replaceAll("-", "_")}`] !== undefined,
  );
  if (consumed?.flag === undefined) return [];
  const option = `--${consumed.flag}${consumed.kind.placeholder === "" ? "" : ` ${consumed.kind.placeholder}`}`;
  const script = env["npm_lifecycle_event"] ?? "NAME";
  return [
    {
      path: `--${consumed.flag}`,
      message: `npm consumed this option; write -- before it: npm run ${script} -- ${option}`,
    },
  ];
}
