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
  const room = { left: maxTasks, out: 0 };
  const kept = [timer, ...tasks].flatMap((task) => keep(task, room));
  return { thread, tasks: kept, leftOut: room.out };
}

/** Returns a task with as many tasks below it as fit, its age in whole milliseconds. */
function keep(task: Task, room: { left: number; out: number }): readonly Task[] {
  if (room.left === 0) {
    room.out += sizeOf(task);
    return [];
  }
  room.left--;
  const age = task.ageMs === undefined ? {} : { ageMs: Math.round(task.ageMs) };
  return [{ ...task, ...age, children: task.children.flatMap((child) => keep(child, room)) }];
}

function sizeOf({ children }: Task): number {
  return children.reduce((sum, child) => sum + sizeOf(child), 1);
}
