/**
 * `status.selectedSecrets` of a ProxyPolicy: the names of the Secrets that its selector selects. The controller writes
 * it, so that proxies need no permission to list Secrets. A wrong name has no effect: a proxy may read only what its
 * Role names, and uses a Secret only if it has the labels of the selector.
 */
import * as z from "zod";
import { objectName } from "./schema.ts";

/** Maximum number of Secrets that a policy selects; the first by name. A proxy watches each of them. */
export const maxSelectedSecrets = 1_024;

const statusSchema = z.object({ selectedSecrets: z.array(z.unknown()) });

/** Returns the names in the status of a policy; empty for any other status. */
export function selectedInStatus(status: unknown): readonly string[] {
  const names = statusSchema.safeParse(status).data?.selectedSecrets ?? [];
  return names.slice(0, maxSelectedSecrets).flatMap((name) => objectName.safeParse(name).data ?? []);
}
