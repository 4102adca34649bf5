/** Errors of HTTP/1 messages. */

/** The error for a message that violates RFC 9112, or exceeds a bound. Later bytes of its connection are not read. */
export class MessageError extends Error {
  override readonly name = "MessageError";
  /** The status of the response to a request with this error. */
  readonly status: 400 | 414 | 431 | 501 | 505;

  constructor(status: MessageError["status"], message: string) {
    super(message);
    this.status = status;
  }
}
