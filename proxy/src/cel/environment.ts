/**
 * The functions of an expression: the CEL standard library and its string extensions, with regular expressions run by
 * RE2, whose time is linear in the text, so that no request can make a pattern of ours explode.
 */
import { type CelEnv, celEnv } from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";
import { RE2JS } from "re2js";

/** Compiled patterns kept; nearly all patterns are constants, so one thread sees few. */
const maxPatterns = 256;

const patterns = new Map<string, RE2JS>();

/** A compiled pattern, from memory where it has been seen; throws what RE2 finds wrong with it. */
export function compilePattern(source: string): RE2JS {
  let pattern = patterns.get(source);
  if (pattern === undefined) {
    pattern = RE2JS.compile(source);
    if (patterns.size >= maxPatterns) patterns.clear(); // Only patterns made out of requests can get here.
    patterns.set(source, pattern);
  }
  return pattern;
}

/** Holds no variable: those are bound by name for each evaluation. */
export const environment: CelEnv = celEnv({ funcs: strings, re2: { compile: compilePattern } });
