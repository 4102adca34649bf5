/** The table of variables in docs/rate-limiting.md has every variable of expressions, and says when it is known. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { variables } from "../../proxy/src/cel/variables.ts";

const page = readFileSync(new URL("../../docs/rate-limiting.md", import.meta.url), "utf8");
const [, section = ""] = /^### Variables\n([^]*?)^### /m.exec(page) ?? [];
const rows = section.split("\n").filter((line) => line.startsWith("| `"));

test.each(variables)("$name is in the table of variables, with the time when it is known", ({ name, phase }) => {
  const row = rows.find((line) => new RegExp(`\`${name.replace(".", "\\.")}[.\\[\`]`).test(line));
  const known = {
    head: "in every expression",
    body: "the body is read for it",
    response: "after the response",
    end: "in the access log",
  }[phase];
  expect(row?.split("|").at(-2)).toContain(known);
});
