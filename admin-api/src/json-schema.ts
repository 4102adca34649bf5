/** `/config_dump` as a JSON Schema (draft 2020-12), for readers that are not written in TypeScript. */
import * as z from "zod";
import { configDumpSchema } from "./config-dump.ts";

/** The text of `docs/config-dump.schema.json`. */
export function renderConfigDumpSchema(): string {
  const schema = {
    title: "Answer of GET /config_dump",
    description: "What a gateway proxy serves, and what of its resources it does not. Without secrets.",
    ...z.toJSONSchema(configDumpSchema),
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}
