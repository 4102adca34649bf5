/** What people read of settings: `--help`, and the table of the docs. Both come from the declaration. */
import { renderMarkdownTable } from "./markdown-table.ts";
import type { Setting, Settings } from "./settings.ts";

/** The help text of a program; `usage` such as `npm run proxy -- [OPTIONS]`, `summary` one sentence. */
export function renderHelp(settings: Settings, { usage, summary }: { usage: string; summary: string }): string {
  const rows = Object.values(settings).map((setting) => ({ head: heading(setting), setting }));
  const width = Math.max(...rows.map(({ head }) => head.length), "--help".length);
  const lines = rows.map(({ head, setting }) => {
    const facts = [setting.env, describeDefault(setting)].filter((fact) => fact !== undefined).join("; ");
    return `  ${head.padEnd(width)}  ${setting.help} [${facts}]`;
  });
  const help = `  ${"--help".padEnd(width)}  Shows this text.`;
  return [summary, "", `Usage: ${usage}`, "", "Options [environment variable; default]:", ...lines, help, ""].join(
    "\n",
  );
}

/** A table for Markdown, one row per setting in the order of declaration. */
export function renderSettingsTable(settings: Settings): string {
  const rows = Object.values(settings).map((setting) => {
    const flag = setting.flag === undefined ? "–" : code(heading(setting));
    return [flag, code(setting.env), setting.kind.accepted, describeDefault(setting, code) ?? "–", setting.help];
  });
  return renderMarkdownTable([["flag", "environment variable", "accepts", "default", "what it does"], ...rows]);
}

function heading({ flag, env, kind }: Setting<unknown>): string {
  const name = flag === undefined ? env : `--${flag}`;
  return kind.placeholder === "" || flag === undefined ? name : `${name} ${kind.placeholder}`;
}

function describeDefault(setting: Setting<unknown>, quote = (text: string) => text): string | undefined {
  if (setting.defaultText !== undefined) return setting.defaultText;
  if (setting.default !== undefined) return quote(setting.default);
  return setting.kind.isOptional === true ? undefined : "required";
}

function code(text: string): string {
  return `\`${text}\``;
}
