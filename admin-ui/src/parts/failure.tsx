/** Shows errors, and announces them to screen readers. */
import type { AdminFailure } from "../admin.ts";

/** An error of one response. An unreachable proxy is reported once, in the frame of the page. */
export function Failure({ failure }: { failure: AdminFailure | undefined }) {
  return failure === undefined || failure.isUnreachable ? null : <Alert message={failure.message} />;
}

/** An error message. */
export function Alert({ message }: { message: string }) {
  return (
    <p class="notice bad" role="alert">
      {message}
    </p>
  );
}
