/**
 * Names of metrics rewritten for DogStatsD, where parts of a name become tags (USE_DOG_STATSD_MOGRIFIERS). Patterns are
 * RE2's; the first that is found in a name rewrites it.
 */
import { RE2JS } from "re2js";

/** One rule; `$0`, `$1` … in `name` and in the values of tags stand for what the pattern found. */
export interface Mogrifier {
  readonly pattern: string;
  readonly name: string;
  readonly tags: readonly (readonly [name: string, value: string])[];
}

export interface TaggedName {
  readonly name: string;
  /** `name:value`, in the order of the rule. */
  readonly tags: readonly string[];
}

/** What is wrong with a regular expression of RE2's syntax; undefined where nothing is. */
export function patternFault(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Rewrites names by the first rule that fits; a name that none fits is as it was, without tags. Patterns must be sound. */
export function mogrify(rules: readonly Mogrifier[]): (name: string) => TaggedName {
  const compiled = rules.map((rule) => ({ ...rule, regex: RE2JS.compile(rule.pattern) }));
  return (text) => {
    for (const { regex, name, tags } of compiled) {
      const matcher = regex.matcher(text);
      if (!matcher.find()) continue;
      const groups = Array.from({ length: matcher.groupCount() + 1 }, (_, i) => matcher.group(i) ?? "");
      const filled = (template: string) =>
        template.replace(/\$(\d+)/g, (whole, index: string) => groups[Number(index)] ?? whole);
      return { name: filled(name), tags: tags.map(([tag, value]) => `${tag}:${filled(value)}`) };
    }
    return { name: text, tags: [] };
  };
}

/** A name in which tags are written as the reference's, `.__tag=value`, without them; and the tags. */
export function separateTags(name: string): TaggedName {
  const [first = "", ...rest] = name.split(".__");
  const tags = rest.flatMap((tag) => {
    const equals = tag.indexOf("=");
    return equals === -1 ? [] : [`${tag.slice(0, equals)}:${tag.slice(equals + 1)}`];
  });
  return { name: first, tags };
}
