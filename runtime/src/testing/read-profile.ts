/** Reads pprof profiles in tests. */
import { gunzipSync } from "node:zlib";
import { Profile } from "pprof-format";

/** Decodes a gzip'd profile, with names instead of numbers. */
export function readProfile(bytes: Uint8Array) {
  const profile = Profile.decode(gunzipSync(bytes));
  const text = (index: number | bigint) => profile.stringTable.strings[Number(index)] ?? "";
  const functions = new Map(profile.function.map((each) => [Number(each.id), text(each.name)]));
  const frames = new Map(
    profile.location.map((each) => [Number(each.id), functions.get(Number(each.line[0]?.functionId))]),
  );
  const { period, periodType } = profile;
  return {
    period: `${period} ${text(periodType?.type ?? 0)}/${text(periodType?.unit ?? 0)}`,
    types: profile.sampleType.map(({ type, unit }) => `${text(type)}/${text(unit)}`),
    samples: profile.sample.map(({ locationId, label, value }) => ({
      thread: text(label[0]?.str ?? 0),
      stack: locationId.map((id) => frames.get(Number(id))),
      values: value.map((each) => Number(BigInt.asIntN(64, BigInt(each)))),
    })),
  };
}
