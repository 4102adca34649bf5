/** The log modules of the controller, by name, with the subject of their lines. `docs/logs.md` shows this table. */
export const controllerLogModules = {
  "controller::lifecycle": "start, readiness, shutdown",
  "controller::leader": "the leader election",
  "controller::source": "the connected cluster, and failed watches",
  "controller::config": "problems of resources",
  "controller::reconcile": "reconcile passes, and objects that cannot be processed",
  "controller::provision": "objects that are created, changed and deleted for Gateways",
  "controller::status": "written statuses",
} as const;
