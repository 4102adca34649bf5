/**
 * Rewrites metric names for DogStatsD, where parts of a name become tags (USE_DOG_STATSD_MOGRIFIERS). Patterns have RE2
 * syntax; the first that matches a name rewrites it.
 */
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { RE2JS } from "re2js";

/** One rule. `$0`, `$1` … in `name` and in the values of tags refer to the groups of the match. */
export interface Mogrifier {
  readonly pattern: string;
  readonly name: string;
  readonly tags: readonly (readonly [name: string, value: string])[];
}

/** A metric name without the parts that became tags. */
export interface TaggedName {
  readonly name: string;
  /** `name:value`, in the order of the rule. */
  readonly tags: readonly string[];
}

/** Returns the problem of a regular expression in RE2 syntax, or `undefined`. */
export function patternProblem(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern);
    return undefined;
  } catch (error) {
    return errorMessage(error);
  }
}

/**
 * Returns a function that rewrites a name by the first rule that matches; a name without a match stays, without tags.
 * Patterns must be valid.
 */
export function mogrify(rules: readonly Mogrifier[]): (name: string) => TaggedName {
  const compiled = rules.map((rule) => ({ ...rule, regex: RE2JS.compile(rule.pattern) }));
  return (text) => {
    for (const { regex, name, tags } of compiled) {
      const matcher = regex.matcher(text);
      if (!matcher.find()) continue;
      const groups = Array.from({ length: matcher.groupCount() + 1 }, (_, i) => matcher.group(i) ?? "");
      const fillTemplate = (template: string) =>
        template.replace(/\$(\d+)/g, (whole, index: string) => groups[Number(index)] ?? whole);
      return { name: fillTemplate(name), tags: tags.map(([tag, value]) => `${tag}:${fillTemplate(value)}`) };
    }
    return { name: text, tags: [] };
  };
}
