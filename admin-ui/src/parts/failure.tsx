/** What went wrong, said at once to those who listen to the page. */
export function Failure({ message }: { message: string }) {
  return (
    <p class="failure" role="alert">
      {message}
    </p>
  );
}
