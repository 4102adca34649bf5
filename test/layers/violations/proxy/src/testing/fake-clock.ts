// Support for tests.
export const fakeClock = 0;
