/**
 * The vocabulary of docs/glossary.md. Words that the glossary replaces by others, and phrases that a reader has to
 * decode, are rejected in names, comments, messages and pages alike.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const repository = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(repository, path), "utf8");
const tracked = execFileSync("git", ["ls-files"], { cwd: repository, encoding: "utf8" }).split("\n");

/** Texts in which a rejected word is a name: of an error, in another product, in the public API. */
const accepted: readonly RegExp[] = [
  // The flags for responses whose client has left.
  /abandoned[-_]?answers?/gi,
  // A method of the Gemini API.
  /\bgenerateAnswer\b/g,
  // A section of a DNS message (RFC 1035 §4.1).
  /\banswers: records\b/g,
  // A member of the request of Groq's compound models.
  /\banswering_model\b/g,
  // The setting for invalid policies, in the chart and the environment.
  /\brefusedPolicies\b|\bPROXY_REFUSED_POLICIES\b/g,
  // A member of the message in OpenAI's chat completions.
  /\brefusal: null\b/g,
  /connections? (?:is |was |were |are )?refused/gi,
  /refused the connection/gi,
  // The flag, the chart value and the member of the configuration dump.
  /refused[-_]?policies/gi,
  // The error code of RFC 9113 section 7.
  /REFUSED_STREAM|RefusedStream/g,
  // The reply of the DNS (RFC 1035 section 4.1.1).
  /query refused/gi,
  // A value of fields of a Backend, and a reason in the access log and the metrics.
  /\bRefuse\b|\bPolicyRefused\b/g,
];

/** Further phrases that a reader has to decode. */
const phrases: readonly RegExp[] = [
  /\bwhoever\b/i,
  /\banew\b/i,
  /\bin vain\b/i,
  /\b(?:no|some)body\b/i,
  /\bof ours\b/i,
  /\baloud\b/i,
  /\bof old\b/i,
  /\b(?:to|may|can) be had\b/i,
  /\bstrangers?\b/i,
  /\bpokes?\b/i,
  /\bis no \w+, accepted is\b/i,
  /\bgoes unheard\b/i,
  // A comment opens with a subject or a verb.
  /^\s*(?:\/\/|\/?\*+) What (?:is|it|they|was|were|has|had|goes|comes|stays)\b/,
];

/** The words in code font in the column "not" of the glossary, by words in lower case: `OwnAnswer` is "own answer". */
const replaced = [...read("docs/glossary.md").matchAll(/^\|.*\|([^|]*)\|$/gm)]
  .flatMap(([, column = ""]) => [...column.matchAll(/`([^`]+)`/g)].map(([, word = ""]) => words(word).join(" ")))
  .filter((word) => word !== "");

const pages = tracked.filter(
  (path) =>
    /\.(?:ts|tsx|sh|md|ya?ml|json|tpl|css|html)$/.test(path) &&
    // The glossary itself, this list, generated files and recorded texts of other programs.
    !/^(?:docs\/glossary\.md|test\/repository\/language\.test\.ts|CHANGELOG\.md|package-lock\.json|docs\/conformance\/|protos\/gen\/|\.github\/)/.test(
      path,
    ),
);

describe("the glossary", () => {
  test("has a source for each of its terms", () => {
    const rows = read("docs/glossary.md")
      .split("\n")
      .filter((line) => line.startsWith("| ") && !/^\| (?:term|-)/.test(line));
    expect(rows.length).toBeGreaterThanOrEqual(30);
    expect(rows.filter((row) => row.split("|").length !== 6 || row.split("|")[3]?.trim() === "")).toEqual([]);
  });

  test.each(pages)("is followed by %s", (page) => {
    expect(findings(page)).toEqual([]);
  });
});

/** Lines of a file that contain a rejected word or phrase, as "line: word: text". */
function findings(path: string): readonly string[] {
  return read(path)
    .split("\n")
    .flatMap((line, index) => {
      const text = accepted.reduce((rest, phrase) => rest.replaceAll(phrase, " "), line);
      const spoken = ` ${words(text).join(" ")} `;
      const found = [
        ...replaced.filter((word) => spoken.includes(` ${word} `)),
        ...phrases.filter((phrase) => phrase.test(text)).map((phrase) => phrase.exec(text)?.[0].trim() ?? ""),
      ];
      return found.map((word) => `${path}:${index + 1}: ${word}: ${line.trim().slice(0, 120)}`);
    });
}

/** The words of a text in lower case, with names in camel case, snake case and kebab case split. */
function words(text: string): readonly string[] {
  return [...text.matchAll(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g)].map(([word]) => word.toLowerCase());
}
