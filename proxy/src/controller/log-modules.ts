/** The log modules of the controller, by name, with the subject of their lines. `docs/logs.md` shows this table. */
export const controllerLogModules = {
  "controller::lifecycle": "start, readiness, shutdown",
  "controller::leader": "which replica leads",
  "controller::source": "the cluster that is read, and watches of it that fail",
  "controller::config": "problems of resources",
  "controller::reconcile": "passes over the resources, and objects that made one fail",
  "controller::provision": "what is created, changed and removed for Gateways",
  "controller::status": "conditions that are written",
} as const;
