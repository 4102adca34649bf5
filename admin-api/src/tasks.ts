/** `GET /debug/tasks`: the tasks in progress in each thread, as a tree, oldest first at each level. */
import * as z from "zod";
import { count, type Immutable } from "./shape.ts";

/**
 * The kinds of tasks. A `listener` contains `connection`s, they `request`s, they `upstreamCall`s and `globalCall`s. A
 * `watch` belongs to a source of configuration; a `timer` will fire later; a `trace`, `profile` or `scrape` runs for an
 * operator.
 */
export const taskKinds = [
  "listener",
  "connection",
  "request",
  "upstreamCall",
  "globalCall",
  "rateLimitService",
  "watch",
  "timer",
  "trace",
  "profile",
] as const;

/** One task and the tasks that it contains. */
export interface Task {
  readonly kind: (typeof taskKinds)[number];
  /** Its object: `*:8080`, the client's address, `GET /v1/chat`, `10.0.0.7:8080`. Paths have no query. */
  readonly name: string;
  /** Time since it began, in milliseconds; absent if it has no beginning. */
  readonly ageMs?: number | undefined;
  /** Further facts by name: the request id, what it waits for, how many there are. */
  readonly detail?: Readonly<Record<string, string | number | boolean>> | undefined;
  readonly children: readonly Task[];
}

/** A task and the tasks that it contains. */
export const taskSchema: z.ZodType<Task> = z.lazy(() =>
  z.object({
    kind: z.enum(taskKinds),
    name: z.string(),
    ageMs: z.int().min(0).optional(),
    detail: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
    children: z.array(taskSchema),
  }),
);

/** The response of `GET /debug/tasks`. */
export const taskTreeSchema = z.object({
  threads: z.array(
    z.object({
      thread: z.string().describe("`main`, `worker 1`."),
      tasks: z.array(taskSchema),
      leftOut: count.describe("Number of tasks that are not listed; at most 1,000 per thread are."),
    }),
  ),
});
/** The response of `GET /debug/tasks`. */
export type TaskTree = Immutable<z.output<typeof taskTreeSchema>>;
/** The tasks of one thread. */
export type ThreadTasks = TaskTree["threads"][number];
