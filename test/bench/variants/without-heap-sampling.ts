/** Preloaded (`node --import`) into a proxy of the benchmark: disables the sampling of allocations in every thread. */
import { Session } from "node:inspector";

type Post = (this: Session, method: string, ...more: readonly unknown[]) => void;

// Its overloads are one function.
const post = Reflect.get(Session.prototype, "post") as Post;

Reflect.set(Session.prototype, "post", function (this: Session, method: string, ...more: readonly unknown[]): void {
  if (method !== "HeapProfiler.startSampling") post.call(this, method, ...more);
});
