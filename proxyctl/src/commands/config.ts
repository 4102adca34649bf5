/** `proxyctl config …`: what a proxy has loaded, as tables, as a summary, or as the dump itself. */
import { readFile } from "node:fs/promises";
import { text as readAll } from "node:stream/consumers";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { type Command, Option } from "commander";
import { parseConfigDump } from "../admin/admin-client.ts";
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import type { Io } from "../io.ts";
import { type OutputFormat, outputFormats, renderData } from "../output/format.ts";
import { stylesFor } from "../output/style.ts";
import { type Column, renderTable } from "../output/table.ts";
import { backendColumns, backendRows } from "../views/backends.ts";
import { listenerColumns, listenerRows } from "../views/listeners.ts";
import { narrowToGateway } from "../views/narrow.ts";
import { policyColumns, policyRows } from "../views/policies.ts";
import { routeColumns, routeRows } from "../views/routes.ts";
import { summarize } from "../views/summary.ts";
import { addReachOptions, findAdmins, gatewayOf, namespaceOf, type ReachOptions } from "./reach-options.ts";

interface ConfigOptions extends ReachOptions {
  readonly output: OutputFormat;
  readonly file?: string;
}

/** The configuration of one proxy. */
interface Loaded {
  /** Pod, address or file. */
  readonly from: string;
  readonly dump: ConfigDump;
}

/** One way to look at a dump. */
interface View {
  readonly name: string;
  readonly summary: string;
  readonly data: (dump: ConfigDump) => unknown;
  readonly table: (dump: ConfigDump, isWide: boolean) => string;
}

const views: readonly View[] = [
  {
    name: "backends",
    summary: "Show each endpoint of the backends with its health, requests and latency",
    data: ({ backends }) => backendRows(backends).map(({ state, ...row }) => ({ ...row, ...state })),
    table: ({ backends }, isWide) => tableOrNone(backendColumns, backendRows(backends), isWide, "backends"),
  },
  {
    name: "routes",
    summary: "Show each rule of the routes with its matches, backends and limits",
    data: ({ routes }) => routes,
    table: ({ routes }, isWide) => tableOrNone(routeColumns, routeRows(routes), isWide, "routes"),
  },
  {
    name: "policies",
    summary: "Show the policies, what they limit and where they are attached",
    data: ({ policies }) => policies,
    table: ({ policies }, isWide) => tableOrNone(policyColumns, policyRows(policies), isWide, "policies"),
  },
];

/** Adds `config` and what is below it. */
export function addConfigCommand(program: Command, io: Io): void {
  const config = program.command("config").description("Show what a proxy has loaded");
  const all: View = {
    name: "all",
    summary: "Show listeners, routes, backends and policies; with -o yaml as one summary",
    data: summarize,
    table: (dump, isWide) => renderAll(dump, isWide, io),
  };
  for (const view of [all, ...views]) {
    addSourceOptions(config.command(`${view.name} [resource]`).description(view.summary))
      .addOption(new Option("-o, --output <format>", "how to print it").choices(outputFormats).default("table"))
      .action(async (resource: string | undefined, options: ConfigOptions) => {
        io.stdout.write(renderView(view, await load(resource, options, io), options.output));
      });
  }
  addReachOptions(
    config.command("dump [resource]").description("Print the whole dump as the admin server gives it, for --file"),
    { allPods: false },
  ).action(async (resource: string | undefined, options: ReachOptions) => {
    const [admin] = await findAdmins(resource, options);
    io.stdout.write(await admin.configDumpText());
  });
}

function addSourceOptions(command: Command): Command {
  return addReachOptions(command, { allPods: true }).addOption(
    new Option("-f, --file <file>", "read a saved dump instead, - for standard input").conflicts([
      "address",
      "context",
      "kubeconfig",
      "pod",
      "allPods",
    ]),
  );
}

async function load(resource: string | undefined, options: ConfigOptions, io: Io): Promise<readonly Loaded[]> {
  const gateway = gatewayOf(resource);
  const narrow = (dump: ConfigDump): ConfigDump => {
    return gateway === undefined
      ? dump
      : narrowToGateway(dump, { namespace: namespaceOf(options), name: gateway.name });
  };
  if (options.file !== undefined) {
    const dump = parseConfigDump(`read the dump ${options.file}`, await readFileOrStdin(options.file, io));
    return [{ from: options.file, dump: narrow(dump) }];
  }
  const admins = await findAdmins(resource, options);
  const loaded = admins.map(async (admin) => ({ from: admin.reach.label, dump: await admin.configDump() }));
  // A pod serves the Gateway that it was found by; a proxy at an address may serve several.
  const isShared = options.address !== undefined;
  return (await Promise.all(loaded)).map(({ from, dump }) => ({ from, dump: isShared ? narrow(dump) : dump }));
}

async function readFileOrStdin(file: string, io: Io): Promise<string> {
  if (file === "-") return await readAll(io.stdin);
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new CommandError({
      message: `read ${file}: ${textOf(error)}`,
      advice: ["save a dump with: proxyctl config dump gateway/NAME > FILE"],
      exitCode: exitCodes.failed,
      cause: error,
    });
  }
}

function renderView(view: View, loaded: readonly Loaded[], output: OutputFormat): string {
  const [first] = loaded;
  if (first === undefined) return "";
  if (output === "json" || output === "yaml") {
    if (loaded.length === 1) return renderData(output, view.data(first.dump));
    return renderData(output, Object.fromEntries(loaded.map(({ from, dump }) => [from, view.data(dump)])));
  }
  if (loaded.length === 1) return view.table(first.dump, output === "wide");
  return loaded.map(({ from, dump }) => `==> ${from} <==\n${view.table(dump, output === "wide")}`).join("\n");
}

function tableOrNone<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  isWide: boolean,
  what: string,
): string {
  return rows.length === 0 ? `No ${what} are loaded.\n` : renderTable(columns, rows, { isWide });
}

function renderAll(dump: ConfigDump, isWide: boolean, io: Io): string {
  const styles = stylesFor(io.stdout, io.env);
  const sections = [
    ["Listeners", tableOrNone(listenerColumns, listenerRows(dump), isWide, "listeners")],
    ...views
      .toSorted((a, b) => order.indexOf(a.name) - order.indexOf(b.name))
      .map(({ name, table }) => [name.replace(/^./, (letter) => letter.toUpperCase()), table(dump, isWide)]),
  ];
  const problems = dump.config.problems.map((problem) => `  ${renderDumpedProblem(problem)}\n`).join("");
  if (problems !== "") sections.push(["Problems", problems]);
  return sections.map(([title = "", text = ""]) => `${styles.strong(title)}\n${text}`).join("\n");
}

/** From what a request meets first to what it meets last. */
const order: readonly string[] = ["routes", "backends", "policies"];

function renderDumpedProblem({ message, resource, path, location }: ConfigDump["config"]["problems"][number]): string {
  const place = location === undefined ? undefined : `${location.file}:${location.line}:${location.column}`;
  const head = [place, resource, path].filter((part) => part !== undefined);
  return head.length === 0 ? message : `${head.join(" ")}: ${message}`;
}
