/** A resource that all cases of one test share, such as a gateway. */
import { onTestFinished } from "vitest";

/**
 * Creates it at its first use in a test; callbacks that `make` passes to `onTestFinished` run at the end of that test.
 */
export function perTest<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    if (made === undefined) {
      made = make();
      onTestFinished(() => {
        made = undefined;
      });
    }
    return made;
  };
}
