/** Something that all cases of one test share, such as a gateway. */
import { onTestFinished } from "vitest";

/** Makes it at its first use in a test; what `make` leaves to `onTestFinished` happens at that test's end. */
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
