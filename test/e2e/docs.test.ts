/**
 * Runs the commands of the pages as a reader of a clean clone: every block of commands, in order. The lines of the
 * block of text after it must be in the output.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { context, kubectl } from "./support/cluster.ts";
import { type Block, blocksOf, cloneRepository, Shell, unnamedBlocksOf } from "./support/pages.ts";

const repository = join(import.meta.dirname, "../..");
const pages = [
  ...["README.md", "docs/first-gateway.md", "docs/quickstart-kind.md"],
  ...globSync("examples/*/README.md", { cwd: repository }).sort(),
];

/** Commands that are not run here, and the file that runs them. */
const elsewhere = [
  // It would delete the cluster that the other tests need; the run itself ends with it.
  { commands: "scripts/kind-down.sh", file: "test/e2e/support/global-setup.ts", as: "scripts/kind-down.sh" },
  // All other tests, and more.
  { commands: "npm ci && npm test", file: ".ci/run", as: "npm run check" },
  // It needs a server of gRPC, which that test has.
  {
    commands: `grpcurl -plaintext 127.0.0.1:8080 list
grpcurl -plaintext -d '{"text": "hello"}' 127.0.0.1:8080 test.Echo/Say`,
    file: "test/integration/grpc-routes.test.ts",
    as: "examples/grpc/gateway.yaml",
  },
  // They need a server, and some a client, which that test has.
  { commands: "redis-cli -p 6380 ping", file: "test/examples/streams.test.ts", as: "examples/tcp" },
  {
    commands: "curl --connect-to orders.example.com:443:127.0.0.1:8443 --insecure https://orders.example.com/",
    file: "test/examples/streams.test.ts",
    as: "examples/tls",
  },
  { commands: "dig @127.0.0.1 -p 5353 example.com", file: "test/examples/streams.test.ts", as: "examples/udp" },
] as const;

let clone: ReturnType<typeof cloneRepository>;

beforeAll(() => {
  clone = cloneRepository();
});

afterAll(async () => {
  clone[Symbol.dispose]();
  // The pages edit the examples.
  await kubectl(["apply", "-f", join(repository, "examples/kind/chat.yaml")]);
});

function pattern(line: string): RegExp {
  const literal = line.split("…").map((part) =>
    part
      .trim()
      .replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&")
      .replaceAll(/\s+/g, "\\s+"),
  );
  return new RegExp(literal.join(".*"));
}

async function follow(shell: Shell, { commands, shown }: Block): Promise<void> {
  // kind made its context the current one; another may be the current one since.
  await kubectl(["config", "use-context", context]);
  const output = await shell.run(commands);
  const lines = output.split("\n");
  let from = 0;
  for (const each of shown) {
    const at = lines.findIndex((line, index) => index >= from && pattern(each).test(line));
    expect(at, `no line like ${each} after line ${from} of:\n${output}`).toBeGreaterThanOrEqual(0);
    from = at + 1;
  }
}

test.each(elsewhere)("$commands is run by $file", ({ commands, file, as }) => {
  expect(pages.flatMap(blocksOf).map((block) => block.commands)).toContain(commands);
  expect(readFileSync(join(repository, file), "utf8")).toContain(as);
});

describe.each(pages)("%s", (page) => {
  let shell: Shell;

  beforeAll(() => {
    shell = new Shell(clone.folder);
  });

  afterAll(async () => {
    await shell[Symbol.asyncDispose]();
  });

  test("has a language on each block", () => {
    expect(unnamedBlocksOf(page)).toEqual([]);
  });

  const blocks = blocksOf(page).filter(({ commands }) => elsewhere.every((each) => each.commands !== commands));

  test.each(blocks)("works: $commands", { timeout: 300_000 }, async (block) => {
    await follow(shell, block);
  });
});
