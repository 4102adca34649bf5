// What the formatter and the type checker cannot see. Every ban carries its reason in its message.
import tseslint from "typescript-eslint";

const testFiles = ["**/*.test.ts", "test/**/*.ts", "**/testing/**/*.ts"];

export default tseslint.config(
  { ignores: ["**/node_modules/**", "protos/gen/**", "coverage/**", "**/*.js", "**/*.mjs"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "max-lines": ["error", { max: 500, skipBlankLines: true, skipComments: true }],
      "max-lines-per-function": ["error", { max: 60, skipBlankLines: true, skipComments: true }],
      // Braces can be left out where the statement is on the line of its condition.
      curly: ["error", "multi-line", "consistent"],
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
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "no-restricted-syntax": [
        "error",
        {
          selector: "ExportDefaultDeclaration",
          message: "a named export keeps one name for one thing across the project",
        },
      ],
      "no-restricted-properties": [
        "error",
        {
          object: "process",
          property: "env",
          message: "settings are declared once, with their flag, unit, default and text; read them there",
        },
        { object: "Date", property: "now", message: "take a Clock (runtime/clock), so that tests own the time" },
        { object: "performance", property: "now", message: "take a Clock (runtime/clock), so that tests own the time" },
      ],
    },
  },
  {
    files: [
      "**/main.ts",
      "**/bin.ts",
      "**/executable.ts",
      "**/command.ts",
      "**/controller-main.ts",
      "**/controller-command.ts",
      "**/worker-main.ts",
      "ratelimit-service/src/start.ts",
      "runtime/src/timing/clock.ts",
      "scripts/**/*.ts",
      "examples/**/*.ts",
      "**/*.config.ts",
    ],
    rules: { "no-restricted-properties": "off", "no-restricted-syntax": "off" },
  },
  {
    // The exporters of the OpenTelemetry SDK read the environment by these functions; there are no others yet.
    files: ["runtime/src/metric-export/otlp-sender.ts"],
    rules: { "@typescript-eslint/no-deprecated": "off" },
  },
  {
    files: testFiles,
    rules: {
      // A describe block is one function; its length says nothing.
      "max-lines-per-function": "off",
      "no-restricted-properties": "off",
      "@typescript-eslint/no-non-null-assertion": "off",
    },
  },
);
