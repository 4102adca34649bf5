/** Entry of the rate limit service as we start it, with our defaults. */
import { start } from "./start.ts";

await start("ours");
