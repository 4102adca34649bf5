/** `npm run proxyctl`: runs the sources in the user's folder. npm itself runs scripts in the root of the repository. */
const { INIT_CWD } = process.env;
if (INIT_CWD !== undefined) process.chdir(INIT_CWD);
await import("../proxyctl/src/main.ts");
