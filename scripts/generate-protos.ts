// Writes the types of the messages to protos/gen: `npm run generate`. With --check it writes them to another folder and
// fails if the committed files differ: `npm run check:generated`.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { protoDirectory, protoFiles } from "../protos/src/options.ts";

const committed = join(protoDirectory, "../gen");

/** Generates the types, with options that agree with `messageOptions`. */
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
    // Runs in the folder, because the generator writes its path arguments into the files.
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
    console.error("protos/gen is out of date: run `npm run generate` and commit the result");
    process.exitCode = 1;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
} else {
  generate(committed);
}
