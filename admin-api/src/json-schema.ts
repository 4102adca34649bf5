/** The schema of `/config_dump` as a JSON Schema (draft 2020-12), for clients in other languages. */
import * as z from "zod";
import { configDumpSchema } from "./config-dump.ts";

/** Renders the text of `docs/config-dump.schema.json`. */
export function renderConfigDumpSchema(): string {
  const schema = {
    title: "Response of GET /config_dump",
    description: "What a gateway proxy serves, and which of its resources it does not. Without secrets.",
    ...z.toJSONSchema(configDumpSchema),
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}
