// Writes the types of the wire messages into protos/gen: `npm run generate`. With --check it writes them beside and
// fails when they differ from what is committed: `npm run check:generated`.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { protoDirectory, protoFiles } from "../protos/src/options.ts";

const committed = join(protoDirectory, "../gen");

/** The options mirror `messageOptions`. */
function generate(outDir: string): void {
  rmSync(outDir, { recursive: true, force: true });
  execFileSync(
    "proto-loader-gen-types",
    [
      "--longs=String",
      "--enums=String",
      "--defaults",
      "--oneofs",
      "--grpcLib=@grpc/grpc-js",
      "--importFileExtension=.ts",
      "--includeDirs=.",
      `--outDir=${outDir}`,
      ...protoFiles,
    ],
    // In the folder itself, since the generator writes the paths it was given into the files.
    { cwd: protoDirectory, stdio: ["ignore", "ignore", "inherit"] },
  );
  // A file without a service needs no gRPC types. The generated ones are unused, which the type check rejects.
  rmSync(join(outDir, "rls_conf.ts"));
}

if (process.argv.includes("--check")) {
  const fresh = mkdtempSync(join(tmpdir(), "protos-gen-"));
  try {
    generate(fresh);
    execFileSync("diff", ["-r", committed, fresh], { stdio: "inherit" });
  } catch {
    console.error("protos/gen is not what the .proto files say: run `npm run generate` and commit the result");
    process.exitCode = 1;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
} else {
  generate(committed);
}
