import { describe, expect, expectTypeOf, test } from "vitest";
import { renderProblem } from "../text/problem.ts";
import { integer, optional, socketAddress, text, toggle, type SocketAddress } from "./setting-kinds.ts";
import { renderHelp, renderSettingsTable } from "./settings-text.ts";
import { hasHelpFlag, readSettings, type SettingValues } from "./settings.ts";

const declared = {
  configDir: { kind: text("DIR", "a folder"), flag: "config-dir", env: "CONFIG_DIR", help: "Where manifests are." },
  workers: {
    kind: integer(1, 64),
    flag: "workers",
    env: "WORKERS",
    default: "4",
    defaultText: "number of CPUs",
    help: "How many threads serve.",
  },
  admin: {
    kind: socketAddress,
    flag: "admin-address",
    env: "ADMIN_ADDRESS",
    default: "127.0.0.1:15000",
    help: "Where the admin server listens.",
  },
  quiet: { kind: toggle, flag: "quiet", env: "QUIET", default: "false", help: "Says less." },
  region: { kind: optional(text("NAME", "a name")), env: "REGION", help: "For labels." },
};

function read(argv: readonly string[], env: Record<string, string> = {}) {
  return readSettings(declared, { argv, env });
}

function problemsOf(argv: readonly string[], env: Record<string, string> = {}): string[] {
  const result = read(argv, env);
  return result.ok ? [] : result.problems.map(renderProblem);
}

describe("readSettings", () => {
  test("gives every setting its default, and optional ones undefined", () => {
    expect(read(["--config-dir", "conf"])).toEqual({
      ok: true,
      value: {
        configDir: "conf",
        workers: 4,
        admin: { host: "127.0.0.1", port: 15_000 },
        quiet: false,
        region: undefined,
      },
    });
  });

  test("types every value by its kind", () => {
    expectTypeOf<SettingValues<typeof declared>>().toEqualTypeOf<{
      readonly configDir: string;
      readonly workers: number;
      readonly admin: SocketAddress;
      readonly quiet: boolean;
      readonly region: string | undefined;
    }>();
  });

  test("prefers a flag to the environment, and that to the default", () => {
    const env = { CONFIG_DIR: "from-env", WORKERS: "2", REGION: "eu", QUIET: "true" };
    expect(read(["--workers=3"], env)).toMatchObject({
      value: { configDir: "from-env", workers: 3, region: "eu", quiet: true },
    });
  });

  test("treats an empty environment variable as unset", () => {
    expect(read(["--config-dir=conf"], { WORKERS: "" })).toMatchObject({ value: { workers: 4 } });
  });

  test("treats a switch without a value as true", () => {
    expect(read(["--quiet", "--config-dir", "conf"])).toMatchObject({ value: { quiet: true, configDir: "conf" } });
  });

  test("reports all problems, each with its source and what is accepted", () => {
    expect(problemsOf(["extra", "--workers", "many", "--wrokers"], { ADMIN_ADDRESS: "15000" })).toEqual([
      'unexpected argument "extra": a value follows its option, see --help',
      "--wrokers: unknown option; did you mean --workers?",
      "--config-dir: missing; set --config-dir DIR or CONFIG_DIR to a folder",
      '--workers: "many" is not a whole number from 1 to 64',
      'ADMIN_ADDRESS: "15000" is not HOST:PORT, [IPV6]:PORT or :PORT with a port from 0 to 65535',
    ]);
  });

  test.each([
    ["a slip", ["--confg-dir", "conf"], "--confg-dir: unknown option; did you mean --config-dir?"],
    ["an unknown flag", ["--zzz", "conf"], "--zzz: unknown option; --help lists all options"],
  ])("reports %s among the flags once, without its value", (_, argv, problem) => {
    expect(problemsOf([...argv, "--config-dir", "conf"])).toEqual([problem]);
  });

  test("reports a flag that npm consumed, since no -- came before it", () => {
    const env = { npm_config_config_dir: "true", npm_lifecycle_event: "proxy" };
    expect(problemsOf(["conf"], env)[0]).toBe(
      "--config-dir: npm consumed this option; write -- before it: npm run proxy -- --config-dir DIR",
    );
    expect(read(["--config-dir", "conf"], env)).toMatchObject({ ok: true });
  });

  test("says when the value of a flag is missing", () => {
    expect(problemsOf(["--config-dir"])).toContain("--config-dir: needs a value: a folder");
  });

  test.each(["--help", "-h"])("reads %s as a request for help, and not as a setting", (flag) => {
    expect(hasHelpFlag(["--workers", "many", flag])).toBe(true);
    expect(read(["--config-dir", "conf", flag])).toMatchObject({ ok: true });
  });
});

test("the help text shows flag, text, environment variable and default of every setting, in lines that fit", () => {
  expect(renderHelp(declared, { usage: "proxy [OPTIONS]", summary: "Serves.", columns: 60 })).toBe(
    [
      "Serves.",
      "",
      "Usage: proxy [OPTIONS]",
      "",
      "Options [environment variable; default]:",
      "  --config-dir DIR",
      "        Where manifests are. [CONFIG_DIR; required]",
      "  --workers N",
      "        How many threads serve. [WORKERS; number of CPUs]",
      "  --admin-address HOST:PORT",
      "        Where the admin server listens. [ADMIN_ADDRESS;",
      "        127.0.0.1:15000]",
      "  --quiet",
      "        Says less. [QUIET; false]",
      "  REGION",
      "        For labels. [REGION]",
      "  --version",
      "        Prints the version.",
      "  --help",
      "        Shows this text.",
      "",
    ].join("\n"),
  );
});

test("the table for the docs has a row for every setting", () => {
  const rows = renderSettingsTable(declared).trimEnd().split("\n");
  expect(rows[2]?.replaceAll(/ +/g, " ")).toBe(
    "| `--config-dir DIR` | `CONFIG_DIR` | a folder | required | Where manifests are. |",
  );
  expect(rows).toHaveLength(2 + Object.keys(declared).length);
});
