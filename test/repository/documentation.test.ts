/**
 * Every symbol that product source exports has a documentation comment. In a file that exports one symbol and starts
 * with a comment, that comment counts as the symbol's.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

const repository = join(import.meta.dirname, "../..");

const workspaces = [
  "admin-api",
  "admin-ui",
  "grpc",
  "http",
  "protos",
  "proxy",
  "proxyctl",
  "ratelimit-service",
  "runtime",
];
const files = execFileSync("git", ["ls-files", ...workspaces.map((folder) => `${folder}/src/`)], {
  cwd: repository,
  encoding: "utf8",
})
  .split("\n")
  .filter((path) => /\.tsx?$/.test(path) && !/\.test\.tsx?$|\/testing\/|\/testdata\//.test(path));

/** Each exported symbol, as "file name". */
const symbols = files.flatMap((file) => {
  const source = ts.createSourceFile(file, readFileSync(join(repository, file), "utf8"), ts.ScriptTarget.Latest, true);
  const exported = source.statements.filter(isExported);
  const isFileComment = exported.length === 1 && source.text.startsWith("/**");
  return exported.flatMap((statement) => {
    const isDocumented = isFileComment || ts.getJSDocCommentsAndTags(statement).length > 0;
    return namesOf(statement).map((name) => ({ symbol: `${file} ${name}`, isDocumented }));
  });
});

test("every exported symbol of product source has a documentation comment", () => {
  expect(symbols.length).toBeGreaterThan(2_000);
  const undocumented = symbols.filter(({ isDocumented }) => !isDocumented);
  expect(undocumented.map(({ symbol }) => symbol)).toEqual([]);
});

function isExported(statement: ts.Statement): boolean {
  if (!ts.canHaveModifiers(statement)) return false;
  return ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true;
}

/** The names that an exported declaration declares. */
function namesOf(statement: ts.Statement): readonly string[] {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  }
  const name = ts.getNameOfDeclaration(statement as ts.DeclarationStatement);
  return [name?.getText() ?? "default"];
}
