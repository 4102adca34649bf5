/** `proxyctl doctor`: checks everything from the kubeconfig to the counters. */
import type { Command } from "commander";
import type { DoctorOptions } from "../actions/doctor.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { plainOutput } from "../options/output-option.ts";
import { addConnectOptions } from "../options/connect-options.ts";

/** Adds `doctor`. */
export function addDoctorCommand(program: Command, io: Io): void {
  const doctor = program
    .command("doctor [resource]")
    .description("Check everything from the kubeconfig to the counters");
  withExamples(
    addConnectOptions(doctor, { allPods: false }),
    "proxyctl doctor gateway/web",
    "proxyctl doctor --address :15000",
  )
    .addOption(plainOutput())
    .action(async (resource: string | undefined, options: DoctorOptions) => {
      await (await actions.doctor()).examineAll(resource, options, io);
    });
}
