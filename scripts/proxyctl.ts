/** `npm run proxyctl`: from sources. npm runs scripts in the root; paths on the command line are from where the user stands. */
const { INIT_CWD } = process.env;
if (INIT_CWD !== undefined) process.chdir(INIT_CWD);
await import("../proxyctl/src/main.ts");
