/** What went wrong, said at once to those who listen to the page. */
import type { AdminFailure } from "../admin.ts";

/** Of one answer. That the proxy does not answer at all is said once, by the frame of the page. */
export function Failure({ failure }: { failure: AdminFailure | undefined }) {
  return failure === undefined || failure.isUnreachable ? null : <Alert message={failure.message} />;
}

export function Alert({ message }: { message: string }) {
  return (
    <p class="notice bad" role="alert">
      {message}
    </p>
  );
}
