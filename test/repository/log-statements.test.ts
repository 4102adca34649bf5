/** The form of every log statement: a constant phrase with fields; and every module has a debug statement. */
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { proxyLogModules } from "../../proxy/src/app/log-modules.ts";
import { controllerLogModules } from "../../proxy/src/controller/log-modules.ts";
import { serviceLogModules } from "../../ratelimit-service/src/settings/log-modules.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

interface Statement {
  readonly file: string;
  readonly line: number;
  readonly level: string;
  /** The expression before the call: `this.#log`, `lines.upstream`. */
  readonly receiver: string;
  readonly message: ts.Expression | undefined;
}

const levels = new Set(["trace", "debug", "info", "warn", "error"]);

/** Calls such as `log.debug(…)`, in one file. */
function statementsOf(file: string): readonly Statement[] {
  const source = ts.createSourceFile(file, readFileSync(`${root}/${file}`, "utf8"), ts.ScriptTarget.Latest, true);
  const found: Statement[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const { name, expression } = node.expression;
      const receiver = expression.getText(source);
      if (levels.has(name.text) && /log|logger|lines/i.test(receiver)) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
        const message = node.arguments.at(-1);
        found.push({ file, line: line + 1, level: name.text, receiver, message });
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const files = globSync(["proxy/src/**/*.ts", "ratelimit-service/src/**/*.ts"], { cwd: root }).filter(
  (file) => !file.endsWith(".test.ts") && !file.includes("/testing/"),
);
/** The file that adds the fields of a request and passes the rest through. */
const requestLogFile = "proxy/src/telemetry/request-log.ts";
const statements = files.flatMap(statementsOf);

/** A text, or one of several texts that a condition or a table chooses. */
function isConstant(message: ts.Expression | undefined): boolean {
  if (message === undefined) return false;
  if (ts.isStringLiteral(message) || ts.isNoSubstitutionTemplateLiteral(message)) return true;
  if (ts.isConditionalExpression(message)) return isConstant(message.whenTrue) && isConstant(message.whenFalse);
  return ts.isElementAccessExpression(message) && message.expression.getText().endsWith("Phrases");
}

test("the message of every statement is a constant phrase; values are in its fields", () => {
  expect(statements.length).toBeGreaterThan(100);
  const others = statements.filter(({ file, receiver, message }) => {
    return !isConstant(message) && !(file === requestLogFile && receiver === "this.#logger");
  });
  expect(others.map(({ file, line, message }) => `${file}:${line}: ${message?.getText() ?? ""}`)).toEqual([]);
});

/** Where a module has its statements: a file, and the receiver, in files where other modules log too. */
type Location = readonly [file: string, receiver?: string];

const locations = {
  "proxy::lifecycle": [["proxy/src/app/proxy.ts"]],
  "proxy::config": [["proxy/src/app/configuration.ts"]],
  "proxy::kubernetes": [["proxy/src/kube/watch.ts"]],
  "proxy::tracing": [["proxy/src/app/open-request-tracing.ts"], ["proxy/src/app/open-log-export.ts"]],
  "proxy::metrics": [["proxy/src/app/proxy.ts"]],
  "proxy::routing": [[requestLogFile, "lines.routing"]],
  "proxy::ratelimit": [
    [requestLogFile, "lines.ratelimit"],
    ["proxy/src/pipeline/limit-call-lines.ts"],
    ["proxy/src/telemetry/global-limit-metrics.ts"],
  ],
  "proxy::upstream": [
    [requestLogFile, "lines.upstream"],
    ["proxy/src/pipeline/attempts/attempt-trace.ts"],
    ["proxy/src/upstream/backend-handle.ts"],
    ["proxy/src/upstream/health-checks.ts"],
    ["proxy/src/upstream/host-resolver.ts"],
  ],
  "proxy::state": [["proxy/src/app/saved-counters.ts"]],
  "proxy::workers": [["proxy/src/app/worker-pool.ts"]],
  "proxy::server": [
    [requestLogFile, "lines.server"],
    ["proxy/src/pipeline/logged-exchange.ts"],
    ["proxy/src/listen/connection-log.ts"],
  ],
  "proxy::admin": [["proxy/src/admin/server.ts"]],
  "proxy::access": [[requestLogFile, "lines.access"]],
  "controller::lifecycle": [["proxy/src/controller-command.ts"]],
  "controller::leader": [["proxy/src/controller/lease.ts"]],
  "controller::source": [["proxy/src/kube/watch.ts"]],
  "controller::config": [["proxy/src/controller/controller.ts"]],
  "controller::reconcile": [["proxy/src/controller/controller.ts"]],
  "controller::provision": [["proxy/src/controller/provision/provisioner.ts"]],
  "controller::status": [["proxy/src/status/writer.ts"]],
  "ratelimit::lifecycle": [["ratelimit-service/src/command.ts"], ["ratelimit-service/src/app/ratelimit-process.ts"]],
  "ratelimit::config": [
    ["ratelimit-service/src/app/config-log.ts"],
    ["ratelimit-service/src/app/call-thread.ts"],
    ["ratelimit-service/src/app/open-config-source.ts"],
  ],
  "ratelimit::store": [["ratelimit-service/src/app/call-thread.ts"], ["ratelimit-service/src/app/outage-log.ts"]],
  "ratelimit::grpc": [["ratelimit-service/src/app/logged-service.ts"]],
  "ratelimit::http": [["ratelimit-service/src/app/ratelimit-process.ts"]],
  "ratelimit::statsd": [["ratelimit-service/src/app/ratelimit-process.ts"]],
  "ratelimit::tracing": [
    ["ratelimit-service/src/app/open-service-tracing.ts"],
    ["ratelimit-service/src/app/open-line-export.ts"],
  ],
  "ratelimit::metrics": [["ratelimit-service/src/app/ratelimit-process.ts"]],
  "ratelimit::workers": [["ratelimit-service/src/app/worker-pool.ts"]],
} satisfies Record<
  keyof typeof proxyLogModules | keyof typeof controllerLogModules | keyof typeof serviceLogModules,
  readonly Location[]
>;

describe("the module", () => {
  const each: readonly (readonly [string, readonly Location[]])[] = Object.entries(locations);

  test.each(each)("%s has a debug statement in each of its files", (_, own) => {
    for (const [file, expected] of own) {
      const found = statements.filter(
        ({ file: at, level, receiver }) => at === file && level === "debug" && (expected ?? receiver) === receiver,
      );
      expect(found.length, `${file} ${expected ?? ""}`).toBeGreaterThan(0);
    }
  });
});

test("every file with a statement below info belongs to a module", () => {
  const known = new Set(Object.values(locations).flatMap((own) => own.map(([file]) => file)));
  const below = statements.filter(({ level }) => level === "debug" || level === "trace").map(({ file }) => file);
  expect(below.filter((file) => !known.has(file))).toEqual([]);
});
