/** Entry of the rate limit service with the defaults of this repository. */
import { setFlagsFromString } from "node:v8";

// As `start` does. Node's loader has functions that V8 compiles after a few modules, and a compiler takes 3 MiB then.
setFlagsFromString("--no-maglev");
setFlagsFromString("--no-turbofan");
const { start } = await import("./start.ts");
await start("ours");
