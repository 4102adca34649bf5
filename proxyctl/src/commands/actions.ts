/**
 * The actions of commands, each loaded when it runs. The command tree must load in milliseconds, since a shell runs it
 * at every TAB. So nothing under commands/ imports an action, a schema, a parser or the Kubernetes client in any other
 * way.
 */
export const actions = {
  config: () => import("../actions/config.ts"),
  convert: () => import("../actions/convert.ts"),
  doctor: () => import("../actions/doctor.ts"),
  explain: () => import("../actions/limits-explain.ts"),
  limitsTest: () => import("../actions/limits-test.ts"),
  logging: () => import("../actions/logging.ts"),
  profile: () => import("../actions/profile.ts"),
  reset: () => import("../actions/limits-reset.ts"),
  top: () => import("../actions/limits-top.ts"),
  trace: () => import("../actions/trace.ts"),
  validate: () => import("../actions/validate.ts"),
  version: () => import("../actions/version.ts"),
} as const;
