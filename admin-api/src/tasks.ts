/** `GET /debug/tasks`: what is under way in each thread, as a tree, oldest first at each level. */
import * as z from "zod";
import { count, type Immutable } from "./shape.ts";

/**
 * `listener` holds `connection`s, they `request`s, they `upstreamCall`s and `globalCall`s; `watch` is of a source of
 * configuration; `timer` is what a thread will do later by itself; `trace`, `profile` and `scrape` are under way for
 * an operator.
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

export interface Task {
  readonly kind: (typeof taskKinds)[number];
  /** What of: `*:8080`, the client's address, `GET /v1/chat`, `10.0.0.7:8080`. Paths come without their query. */
  readonly name: string;
  /** Since it began, in milliseconds; absent where that means nothing. */
  readonly ageMs?: number | undefined;
  /** More to know, by name: the request id, what it waits for, how many there are. */
  readonly detail?: Readonly<Record<string, string | number | boolean>> | undefined;
  readonly children: readonly Task[];
}

export const taskSchema: z.ZodType<Task> = z.lazy(() =>
  z.object({
    kind: z.enum(taskKinds),
    name: z.string(),
    ageMs: z.int().min(0).optional(),
    detail: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
    children: z.array(taskSchema),
  }),
);

export const taskTreeSchema = z.object({
  threads: z.array(
    z.object({
      thread: z.string().describe("`main`, `worker 1`."),
      tasks: z.array(taskSchema),
      leftOut: count.describe("Tasks beyond the first 1,000 of a thread."),
    }),
  ),
});
export type TaskTree = Immutable<z.output<typeof taskTreeSchema>>;
export type ThreadTasks = TaskTree["threads"][number];
