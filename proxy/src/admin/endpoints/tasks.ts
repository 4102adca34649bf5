/** `/debug/tasks`: the tasks in progress in each thread. */
import type { Task, TaskTree, ThreadTasks } from "@gatewayproxy/admin-api/tasks";
import type { AdminEndpoint } from "../endpoint.ts";

/** Maximum number of tasks per thread, which bounds the work of a busy worker. */
const maxTasks = 1_000;

/** The endpoint of tasks in progress, which `collect` reads for each request. */
export function tasksEndpoint(collect: () => Promise<TaskTree>): AdminEndpoint {
  return {
    path: "/debug/tasks",
    query: [],
    summary:
      "The tasks in progress in every thread: listeners, connections, requests, calls, watches, timers, with their ages.",
    methods: { GET: async () => ({ kind: "json", value: await collect() }) },
  };
}

/** Returns the tasks of the calling thread, with its timers. */
export function threadTasks(thread: string, tasks: readonly Task[]): ThreadTasks {
  const timers = process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const timer: Task = { kind: "timer", name: "timers", detail: { keepingAlive: timers }, children: [] };
  const capacity = { left: maxTasks, leftOut: 0 };
  const included = [timer, ...tasks].flatMap((task) => limitTasks(task, capacity));
  return { thread, tasks: included, leftOut: capacity.leftOut };
}

/** Returns a task with as many of the tasks below it as `capacity` allows. Rounds its age to milliseconds. */
function limitTasks(task: Task, capacity: { left: number; leftOut: number }): readonly Task[] {
  if (capacity.left === 0) {
    capacity.leftOut += sizeOf(task);
    return [];
  }
  capacity.left--;
  const age = task.ageMs === undefined ? {} : { ageMs: Math.round(task.ageMs) };
  return [{ ...task, ...age, children: task.children.flatMap((child) => limitTasks(child, capacity)) }];
}

function sizeOf({ children }: Task): number {
  return children.reduce((sum, child) => sum + sizeOf(child), 1);
}
