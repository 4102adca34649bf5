/** Entry of the rate limit service with the defaults of this repository. */
import { start } from "./start.ts";

await start("ours");
