/**
 * Draws a flame graph of a CPU profile of V8, such as `npm run bench -- --profiles DIR` writes: `npm exec -- node
 * test/bench/flame-graph.ts PROFILE TITLE > FILE.svg`. Needs inferno-flamegraph (`cargo install inferno`).
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";

/** The members of a profile that are used (Chrome DevTools Protocol, type Profiler.Profile). */
const profileSchema = z.object({
  nodes: z.array(
    z.object({
      id: z.number(),
      callFrame: z.object({ functionName: z.string(), url: z.string() }),
      children: z.array(z.number()).optional(),
    }),
  ),
  samples: z.array(z.number()),
});
type Profile = z.infer<typeof profileSchema>;
type ProfileNode = Profile["nodes"][number];

/** The time in which the thread waits. */
const idle = "(idle)";
/** The start of the thread, which loads its modules, is left out. */
const loader = "node:internal/modules/";

/** Returns the lines that flame graphs are made of: the functions of a stack, the outermost first, and its samples. */
function stacksOf({ nodes, samples }: Profile, repository: string): string {
  const counts = new Map<number, number>();
  for (const id of samples) counts.set(id, (counts.get(id) ?? 0) + 1);
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const lines: string[] = [];
  for (const node of nodes) {
    const count = counts.get(node.id) ?? 0;
    if (count === 0 || node.callFrame.functionName === idle) continue;
    const stack: ProfileNode[] = [];
    // The root has no parent, and stands for the thread.
    for (let at: ProfileNode | undefined = node; at !== undefined && parents.has(at.id); ) {
      stack.unshift(at);
      at = byId.get(parents.get(at.id) ?? 0);
    }
    if (stack.some(({ callFrame }) => callFrame.url.startsWith(loader))) continue;
    lines.push(`${stack.map((each) => frameOf(each, repository)).join(";")} ${count}`);
  }
  return lines.join("\n");
}

/** Returns the name of a function with its file: below `repository` its path, else the name of the module. */
function frameOf({ callFrame: { functionName, url } }: ProfileNode, repository: string): string {
  const name = functionName === "" ? "(anonymous)" : functionName;
  const file = url.startsWith("file:") ? relative(repository, fileURLToPath(url)) : url;
  return (file === "" ? name : `${name} ${file.replace(/^.*node_modules\//, "")}`).replaceAll(";", ",");
}

const [, , profile, title] = process.argv;
if (profile === undefined || title === undefined) throw new Error("usage: flame-graph.ts PROFILE TITLE > FILE.svg");
const parsed = profileSchema.parse(JSON.parse(readFileSync(profile, "utf8")));
const args = ["--title", title, "--width", "1600", "--minwidth", "0.15", "--hash"];
const graph = execFileSync("inferno-flamegraph", args, { input: stacksOf(parsed, process.cwd()), encoding: "utf8" });
// Pages show an image without its script, which is for zooming and searching.
process.stdout.write(graph.replace(/<script[^]*?<\/script>/, "").replace(/<text id="search"[^]*?<\/text>/, ""));
