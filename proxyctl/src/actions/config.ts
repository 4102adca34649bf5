/** Runs `proxyctl config …`: shows a dump as tables, as a summary, or unchanged. */
import { readFile } from "node:fs/promises";
import { text as readAll } from "node:stream/consumers";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { parseConfigDump } from "../admin/admin-client.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import { CommandError, textOf } from "../command-error.ts";
import type { Io } from "../io.ts";
import { withJsonEscapes, withoutControls } from "../output/controls.ts";
import { type OutputFormat, renderData } from "../output/format.ts";
import { type Styles, stylesFor } from "../output/style.ts";
import { type Column, renderTable, wrapText } from "../output/table.ts";
import { backendColumns, backendNotes, backendRows } from "../views/backends.ts";
import { conflictLines } from "../views/conflicts.ts";
import { gatewayColumns, gatewayNotes, gatewayRows } from "../views/gateways.ts";
import { listenerColumns, listenerNotes, listenerRows } from "../views/listeners.ts";
import { narrowToGateway } from "../views/narrow.ts";
import { policyColumns, policyNotes, policyRows } from "../views/policies.ts";
import { routeColumns, routeNotes, routeRows } from "../views/routes.ts";
import { summarize } from "../views/summary.ts";
import { adminClients, gatewayNameOf, requireNoPod } from "./find-admins.ts";

/** Options of `proxyctl config …`. */
export interface ConfigOptions extends ConnectOptions {
  /** `-o`; `wide` adds columns to the table. */
  readonly output: OutputFormat;
  /** `--file`: a saved dump, `-` for standard input; absent: the dump of a proxy. */
  readonly file?: string;
}

/** The configuration of one proxy. */
interface Loaded {
  /** The pod, address or file. */
  readonly from: string;
  readonly dump: ConfigDump;
}

/** The layout of tables. */
interface Layout {
  readonly isWide: boolean;
  /** The width of the terminal in columns; undefined if there is none. */
  readonly width: number | undefined;
  readonly styles: Styles;
}

/** A view of a dump. */
interface View {
  readonly data: (dump: ConfigDump) => unknown;
  readonly table: (dump: ConfigDump, layout: Layout) => string;
}

const parts = {
  routes: {
    data: ({ routes }) => routes,
    table: ({ routes }, layout) => tableOrNone("routes", routeColumns, routeRows(routes), layout, routeNotes),
  },
  backends: {
    data: ({ backends }) => backendRows(backends).map(({ state, ...row }) => ({ ...row, ...state })),
    table: ({ backends }, layout) =>
      tableOrNone("backends", backendColumns, backendRows(backends), layout, backendNotes),
  },
  policies: {
    data: ({ policies }) => policies,
    table: ({ policies }, layout) =>
      tableOrNone("policies", policyColumns, policyRows(policies), layout, layout.isWide ? undefined : policyNotes),
  },
} as const satisfies Readonly<Record<string, View>>;

const views = { all: { data: summarize, table: renderAll }, ...parts } as const satisfies Readonly<
  Record<string, View>
>;

/** The name of a view, which is its subcommand. */
export type ViewName = keyof typeof views;

/** Prints a view of the configuration. */
export async function showConfig(
  name: ViewName,
  resource: string | undefined,
  options: ConfigOptions,
  io: Io,
): Promise<void> {
  const { isTTY, columns } = io.stdout;
  const layout = {
    isWide: options.output === "wide",
    width: isTTY && options.output !== "wide" ? columns : undefined,
    styles: stylesFor(io.stdout, io.env),
  };
  io.stdout.write(renderView(views[name], await load(resource, options, io), options.output, layout));
}

/** Prints the dump as the admin server returns it. */
export async function printDump(resource: string | undefined, options: ConnectOptions, io: Io): Promise<void> {
  const [admin] = await adminClients(resource, options);
  const text = await admin.configDumpText();
  const gateway = gatewayNameOf(resource, options);
  // The whole dump is printed whatever the name. A Gateway that the proxy does not serve is an error.
  if (options.address !== undefined && gateway !== undefined) {
    narrowToGateway(parseConfigDump(`read /config_dump of ${admin.connector.name}`, text), gateway);
  }
  io.stdout.write(withJsonEscapes(text));
}

async function load(resource: string | undefined, options: ConfigOptions, io: Io): Promise<readonly Loaded[]> {
  const gateway = gatewayNameOf(resource, options);
  const narrow = (dump: ConfigDump): ConfigDump => (gateway === undefined ? dump : narrowToGateway(dump, gateway));
  if (options.file !== undefined) {
    requireNoPod(resource, "--file");
    const dump = parseConfigDump(`read the dump ${options.file}`, await readFileOrStdin(options.file, io));
    return [{ from: options.file, dump: narrow(dump) }];
  }
  const admins = await adminClients(resource, options);
  const loaded = admins.map(async (admin) => ({ from: admin.connector.label, dump: await admin.configDump() }));
  // A pod serves only the Gateway by which it was found; a proxy at an address may serve several.
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
      cause: error,
    });
  }
}

function renderView(view: View, loaded: readonly Loaded[], output: OutputFormat, layout: Layout): string {
  const [first] = loaded;
  if (first === undefined) return "";
  if (output === "json" || output === "yaml") {
    if (loaded.length === 1) return renderData(output, view.data(first.dump));
    return renderData(output, Object.fromEntries(loaded.map(({ from, dump }) => [from, view.data(dump)])));
  }
  if (loaded.length === 1) return view.table(first.dump, layout);
  return loaded.map(({ from, dump }) => `==> ${from} <==\n${view.table(dump, layout)}`).join("\n");
}

function tableOrNone<Row>(
  subject: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { isWide, width }: Layout,
  notes?: (row: Row) => readonly string[],
): string {
  if (rows.length === 0) return `No ${subject} are loaded.\n`;
  return renderTable(columns, rows, { isWide, ...(width !== undefined && { width }), ...(notes && { notes }) });
}

/** Renders all tables, in the order in which a request passes through the objects. */
function renderAll(dump: ConfigDump, layout: Layout): string {
  const sections = [
    ["Gateways", tableOrNone("Gateways", gatewayColumns, gatewayRows(dump), layout, gatewayNotes)],
    ["Listeners", tableOrNone("listeners", listenerColumns, listenerRows(dump), layout, listenerNotes)],
    ["Routes", parts.routes.table(dump, layout)],
    ["Backends", parts.backends.table(dump, layout)],
    ["Policies", parts.policies.table(dump, layout)],
  ];
  const { width = Number.POSITIVE_INFINITY } = layout;
  const lines = dump.config.problems.flatMap((problem) =>
    wrapText(`  ${withoutControls(renderDumpedProblem(problem))}`, width, "    "),
  );
  const problems = lines.map((line) => `${line}\n`).join("");
  if (problems !== "") sections.push(["Problems", problems]);
  const conflicts = conflictLines(dump).flatMap((line) => wrapText(`  ${withoutControls(line)}`, width, "    "));
  if (conflicts.length > 0) sections.push(["Conflicts", conflicts.map((line) => `${line}\n`).join("")]);
  return sections.map(([title = "", text = ""]) => `${layout.styles.strong(title)}\n${text}`).join("\n");
}

function renderDumpedProblem({ message, resource, path, location }: ConfigDump["config"]["problems"][number]): string {
  const position = location === undefined ? undefined : `${location.file}:${location.line}:${location.column}`;
  const head = [position, resource, path].filter((part) => part !== undefined);
  return head.length === 0 ? message : `${head.join(" ")}: ${message}`;
}
