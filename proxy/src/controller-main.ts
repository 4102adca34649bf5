/** Entry of the controller: everything else is loaded after the engine knows what it compiled at an earlier start. */
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";

reuseCompiledCode(process.env);
await import("./controller-command.ts");
