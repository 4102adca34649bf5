/** Renders settings for people: `--help`, and the table in the docs. Both are made from the declarations. */
import { renderMarkdownTable } from "../text/markdown-table.ts";
import type { Setting, Settings } from "./settings.ts";

/**
 * Renders the help text of a program; `usage` such as `npm run proxy -- [OPTIONS]`, `summary` one sentence. Text that
 * does not fit into `columns` is wrapped.
 */
export function renderHelp(
  settings: Settings,
  { usage, summary, columns }: { usage: string; summary: string; columns: number },
): string {
  const rows = Object.values(settings).map((setting) => {
    const facts = [setting.env, describeDefault(setting)].filter((fact) => fact !== undefined).join("; ");
    return [heading(setting), `${setting.help} [${facts}]`] as const;
  });
  const common = [["--version", "Prints the version."] as const, ["--help", "Shows this text."] as const];
  const lines = [...rows, ...common].flatMap(([head, text]) => [
    `  ${head}`,
    ...wrap(text, columns - textIndent.length).map((line) => `${textIndent}${line}`),
  ]);
  return [summary, "", `Usage: ${usage}`, "", "Options [environment variable; default]:", ...lines, ""].join("\n");
}

const textIndent = " ".repeat(8);

/** Splits a text into lines of whole words, each as long as fits. */
function wrap(text: string, columns: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= columns) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** Renders a Markdown table with one row per setting, in the order of declaration. */
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
