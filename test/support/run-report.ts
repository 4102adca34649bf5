/**
 * The JSON report of vitest with the errors that belong to no test, which fail a run although every test passes: a
 * rejection that nothing handles, a hook of a suite or a file, a worker that exits.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
import { JsonReporter, type SerializedError, type TestModule } from "vitest/node";

/** Writes the report, with `otherErrors`: one text for each error, which begins with where it occurred. */
export class RunReport extends JsonReporter {
  readonly #file: string;

  /** @param outputFile is an absolute path */
  constructor(outputFile: string) {
    super({ outputFile });
    this.#file = outputFile;
  }

  override async onTestRunEnd(
    modules: readonly TestModule[],
    unhandled: readonly SerializedError[] = [],
  ): Promise<void> {
    await super.onTestRunEnd(modules);
    const report = JSON.parse(readFileSync(this.#file, "utf8")) as object;
    writeFileSync(this.#file, JSON.stringify({ ...report, otherErrors: otherErrors(modules, unhandled) }));
  }
}

function otherErrors(modules: readonly TestModule[], unhandled: readonly SerializedError[]): readonly string[] {
  const ofHooks = modules.flatMap((module) => {
    const path = relative(process.cwd(), module.moduleId);
    // A file without tests could not be loaded, which the report has already.
    const ofFile = [...module.children.allTests()].length === 0 ? [] : module.errors();
    const ofSuites = [...module.children.allSuites()].flatMap((suite) =>
      suite.errors().map((error) => `${path}: ${suite.fullName}: ${textOf(error)}`),
    );
    return [...ofFile.map((error) => `${path}: ${textOf(error)}`), ...ofSuites];
  });
  return [...ofHooks, ...unhandled.map((error) => `outside of every test: ${textOf(error)}`)];
}

function textOf({ stack, message }: SerializedError): string {
  return stack ?? message;
}
