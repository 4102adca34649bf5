/**
 * The choice among the targets of a rule by the model of the request (Backend `spec.ai.models`).
 *
 * A target that lists the model has precedence over one without a list, which may offer any model: a Backend without a
 * list, a Service, a target that redirects, and an invalid one, whose list is unknown. Among several, the weights
 * decide.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import type { ListedModel } from "../llm/client-api.ts";
import { compileWeighted, type Picker, type Rotation } from "../routing/weighted.ts";

/** What the choice depends on. */
export interface ModelTarget {
  readonly weight: number;
  /** Of an `ai` Backend. */
  readonly ai?: AiBackend | undefined;
}

/** The targets of a rule by model. */
export interface RuleModels<Target extends ModelTarget = ModelTarget> {
  /** All models that are listed, each once, in the order of the targets and of their lists. */
  readonly listed: readonly ListedModel[];
  /** The provider of all of them; undefined if they differ. */
  readonly provider: ListedModel["provider"] | undefined;
  /**
   * Returns the target of the next request for a model, with the model that its provider gets as `ai.model`; undefined
   * if no target offers it. A request that names no model goes to a target without a list, if there is one.
   */
  readonly pick: (model: string | undefined) => Target | undefined;
}

/** A target that may be chosen. */
interface Eligible<Target> {
  readonly target: Target;
  /** Its index in the rule. */
  readonly place: number;
  /** The names for its provider by those for clients; undefined if it may offer any model. */
  readonly names: ReadonlyMap<string, string> | undefined;
}

/**
 * Compiles the choice; undefined if no target that may be chosen lists its models.
 *
 * @param rotationOf the position in the weighted choice among the targets at these places.
 */
export function compileModels<Target extends ModelTarget>(
  targets: readonly Target[],
  rotationOf: (places: readonly number[]) => Rotation,
): RuleModels<Target> | undefined {
  const eligible = targets.flatMap((target, place): readonly Eligible<Target>[] =>
    target.weight > 0 ? [{ target, place, names: namesOf(target) }] : [],
  );
  const listed = new Map<string, ListedModel>();
  for (const model of eligible.flatMap(listedModels)) if (!listed.has(model.name)) listed.set(model.name, model);
  if (listed.size === 0) return undefined;
  const pickerOf = (chosen: readonly Eligible<Target>[], model?: string): Picker<Target> => {
    const rotation = rotationOf(chosen.map(({ place }) => place));
    const weighted: Target[] = targets.map((target) => ({ ...target, weight: 0 }));
    for (const { target, place, names } of chosen) weighted[place] = withModel(target, names?.get(model ?? ""));
    return compileWeighted(weighted, rotation);
  };
  const open = eligible.filter(({ names }) => names === undefined);
  const pickOpen = pickerOf(open);
  const pickAny = open.length > 0 ? pickOpen : pickerOf(eligible);
  const pickers = new Map<string, Picker<Target>>();
  for (const name of listed.keys()) {
    const offering = eligible.filter(({ names }) => names?.has(name) === true);
    pickers.set(name, pickerOf(offering, name));
  }
  return {
    listed: Array.from(listed.values()),
    provider: onlyOf(Array.from(listed.values(), ({ provider }) => provider)),
    pick: (model) => (model === undefined ? pickAny : (pickers.get(model) ?? pickOpen))(),
  };
}

function namesOf({ ai }: ModelTarget): ReadonlyMap<string, string> | undefined {
  return ai?.models && new Map(ai.models.map(({ name, as }) => [name, as]));
}

function listedModels({ target: { ai }, names }: Eligible<ModelTarget>): readonly ListedModel[] {
  if (ai === undefined || names === undefined) return [];
  return Array.from(names.keys(), (name) => ({ name, provider: ai.provider }));
}

function onlyOf<T>(values: readonly T[]): T | undefined {
  const [first, ...others] = new Set(values);
  return others.length === 0 ? first : undefined;
}

/** The backend treats the model like one that it prescribes: nothing in the request can select another. */
function withModel<Target extends ModelTarget>(target: Target, model: string | undefined): Target {
  return target.ai === undefined || model === undefined ? target : { ...target, ai: { ...target.ai, model } };
}
