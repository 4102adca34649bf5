/** `proxyctl convert`: writes the limits of other gateways as ProxyPolicies. */
import type { Command } from "commander";
import type { ConvertOptions } from "../actions/convert.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { fileOption } from "../options/file-option.ts";

/** Adds `convert`. */
export function addConvertCommand(program: Command, io: Io): void {
  withExamples(
    program
      .command("convert")
      .description(
        "Write the limits of ingress-nginx (Ingress) and of Envoy Gateway (BackendTrafficPolicy) as ProxyPolicies",
      ),
    "proxyctl convert -f ingress.yaml > limits.yaml",
    "kubectl get backendtrafficpolicies -A -o yaml | proxyctl convert -f -",
  )
    .addOption(fileOption())
    .action(async (options: ConvertOptions) => {
      await (await actions.convert()).convert(options, io);
    });
}
