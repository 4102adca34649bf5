/** Checks YAML text by its tokens alone, before it is parsed. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { Lexer } from "yaml";
import { maxDepth, tooDeep } from "./yaml-values.ts";

/** Twice the depth, since not every indicator that may open a collection does. */
const maxOpenTokens = 2 * maxDepth;

/** Tokens per step, which take well below a millisecond. */
const tokensPerStep = 1_000;

/**
 * Returns the reason for which a text must not be parsed: it has too many tokens, or may be nested so deeply that
 * parsing takes exponential time. An accepted text nests at most `maxOpenTokens` levels; every text of up to `maxDepth`
 * levels is accepted.
 */
export function* tokenError(text: string, maxTokens: number): Steps<string | undefined> {
  /** Columns of the lines around the current one, ascending. */
  const columns: number[] = [];
  let column = 0;
  let isLineStart = true;
  /** Indicators that may open a collection on the line, or since the last item of a flow collection. */
  let indicators = 0;
  let flow = 0;
  let isContent = false;
  let count = 0;
  for (const token of new Lexer().lex(text)) {
    if (++count % tokensPerStep === 0) yield;
    if (count > maxTokens) return `text has more than ${maxTokens} YAML tokens`;
    if (isContent) {
      isContent = false;
      continue;
    }
    const first = token[0] ?? "";
    if (first === "\n" || first === "\r") {
      column = 0;
      isLineStart = true;
      if (flow === 0) indicators = 0;
      continue;
    }
    if (first === " " || first === "\t") {
      if (isLineStart) column = token.length;
      continue;
    }
    if (isLineStart && flow === 0 && first !== "#") {
      while (columns.length > 0 && (columns.at(-1) ?? 0) >= column) columns.pop();
      columns.push(column);
    }
    isLineStart = false;
    if (first === "[" || first === "{") flow++;
    else if (first === "]" || first === "}") flow = Math.max(0, flow - 1);
    else if (token === "-" || token === "?" || token === ":") indicators++;
    else if (first === "," && flow > 0) indicators = 0;
    // The next token is a scalar, whatever it looks like.
    else if (first === "\u001f") isContent = true;
    if (columns.length + indicators + flow > maxOpenTokens) return tooDeep;
  }
  return undefined;
}
