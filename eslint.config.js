// What no rule of oxlint checks: the names of variables and types, and the width of comments (.oxlintrc.json has all
// other rules).
import { parser, plugin } from "typescript-eslint";

export default [
  { ignores: ["**/node_modules/**", "protos/gen/**", "coverage/**", "**/*.js", "**/*.mjs"] },
  {
    files: ["**/*.ts", "**/*.tsx"],
    languageOptions: { parser },
    plugins: { "@typescript-eslint": plugin },
    rules: {
      // The formatter wraps code at the same width.
      "max-len": ["error", { code: 100_000, comments: 120, ignoreUrls: true }],
      "@typescript-eslint/naming-convention": [
        "error",
        // Constants have no case of their own. Names in PascalCase are enumerations, contexts and components of the page.
        {
          selector: ["variable", "function"],
          format: ["camelCase", "PascalCase"],
          custom: { regex: "^[A-Z][A-Z0-9]+$", match: false },
        },
        // Fields of foreign formats keep their names.
        { selector: ["variable", "parameter"], modifiers: ["destructured"], format: null },
        { selector: "typeLike", format: ["PascalCase"] },
      ],
    },
  },
];
