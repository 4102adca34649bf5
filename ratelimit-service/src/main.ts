/** Entry of the rate limit service with the defaults of this repository. */
import { disableMaglev, pauseCompilers } from "@gatewayproxy/runtime/compilers";

// Before the modules of the service are loaded, since Node's loader itself has functions that become hot.
disableMaglev();
pauseCompilers();
const { start } = await import("./start.ts");
await start("ours");
