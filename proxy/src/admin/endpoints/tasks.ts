/** `/debug/tasks`: what each thread has under way. */
import type { Task, TaskTree, ThreadTasks } from "@gatewayproxy/admin-api/tasks";
import type { AdminEndpoint } from "../endpoint.ts";

/** Tasks of a thread that are told; an operator reads no more, and a busy worker should not write more. */
const maxTasks = 1_000;

export function tasksEndpoint(collect: () => Promise<TaskTree>): AdminEndpoint {
  return {
    path: "/debug/tasks",
    query: [],
    summary:
      "What every thread has under way: listeners, connections, requests, calls, watches, timers, with their ages.",
    methods: { GET: async () => ({ kind: "json", value: await collect() }) },
  };
}

/** The tasks of the thread that calls, with its timers. */
export function threadTasks(thread: string, tasks: readonly Task[]): ThreadTasks {
  const timers = process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const timer: Task = { kind: "timer", name: "timers", detail: { keepingAlive: timers }, children: [] };
  const room = { left: maxTasks, out: 0 };
  const kept = [timer, ...tasks].flatMap((task) => keep(task, room));
  return { thread, tasks: kept, leftOut: room.out };
}

/** A task with as many below it as there is room for, its age in whole milliseconds. */
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
