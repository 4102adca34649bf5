/** Entry point of the controller. Enables the compile cache before it loads any other module. */
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";

reuseCompiledCode(process.env);
await import("./controller-command.ts");
