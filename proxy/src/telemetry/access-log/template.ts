/**
 * Lines of text by a template: text with expressions in `${…}`, and `$${` for the two characters `${`. A value is
 * escaped, so that no client can end a line, a quotation or a column in quotes.
 */
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { controls, visibleControl } from "@gatewayproxy/runtime/visible-controls";
import { expressionEnd } from "../../cel/expression-end.ts";
import type { Ended } from "./ended-request.ts";
import { type LogValue, parseLoggedExpression, type ReadValue } from "./logged-expression.ts";

/** Renders the line of a request, without a newline. */
export type RenderLine = (request: Ended) => string;

/** The maximum length of a template in characters. */
const maxLength = 8_192;

/** Stands for a value that the request does not have, or that is empty. */
const absent = "-";

/** Parses a template. Each problem has the column, from 1, of its expression in the template. */
export function parseTemplate(template: string): Result<RenderLine> {
  const parts: (string | ReadValue)[] = [];
  const problems: Problem[] = [];
  if (template.length > maxLength) {
    return invalid(`the template has ${template.length} characters, at most ${maxLength} are accepted`);
  }
  const addText = (text: string, at: number): void => {
    const control = text.search(controls);
    if (control !== -1) {
      const found = visibleControl(text[control] ?? "");
      problems.push({
        message: `column ${at + control + 1} has the control character ${found}, and a line can have none`,
      });
    }
    if (text !== "") parts.push(text);
  };
  let start = 0;
  for (let at = template.indexOf("${"); at !== -1; at = template.indexOf("${", start)) {
    if (template[at - 1] === "$" && at > start) {
      addText(`${template.slice(start, at - 1)}\${`, start);
      start = at + 2;
      continue;
    }
    addText(template.slice(start, at), start);
    const end = expressionEnd(template, at + 2, "}");
    start = end + 1;
    if (end === template.length) {
      problems.push({ message: `the expression at column ${at + 3} has no end; accepted is \${EXPRESSION}` });
      break;
    }
    const read = parseLoggedExpression(template.slice(at + 2, end));
    if (read.ok) parts.push(read.value);
    else problems.push(...read.problems.map(({ message }) => ({ message: `column ${at + 3}: ${message}` })));
  }
  addText(template.slice(start), start);
  if (problems.length === 0 && parts.every((part) => typeof part === "string")) {
    return invalid("the template has no ${EXPRESSION}, such as ${log.status}; a shell replaces it in double quotes");
  }
  return problems.length > 0 ? { ok: false, problems } : { ok: true, value: rendererOf(parts) };
}

function invalid(message: string): Result<never> {
  return { ok: false, problems: [{ message }] };
}

function rendererOf(parts: readonly (string | ReadValue)[]): RenderLine {
  return (request) => {
    let line = "";
    for (const part of parts) line += typeof part === "string" ? part : textOf(part(request));
    return line;
  };
}

function textOf(value: LogValue | undefined): string {
  const text = typeof value === "object" ? value.join(", ") : String(value ?? "");
  return text === "" ? absent : text.replaceAll(escaped, escape);
}

/** Quotes and backslashes, so that a value in quotes ends at the quote of the template. */
const escaped = new RegExp(String.raw`["\\]|${controls.source}`, "g");

function escape(character: string): string {
  return character === '"' || character === "\\" ? `\\${character}` : visibleControl(character);
}
