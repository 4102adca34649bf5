import fc from "fast-check";
import { expect, test } from "vitest";
import { type Linked, LinkedSet } from "./linked-set.ts";

interface Member extends Linked<Member> {
  readonly name: number;
}

test("contains the members that were added and not deleted, in the order of insertion", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(9)), (changes) => {
      const set = new LinkedSet<Member>();
      const model = new Map<number, Member>();
      for (const name of changes) {
        const known = model.get(name);
        if (known === undefined) {
          const member: Member = { name, before: undefined, after: undefined };
          model.set(name, member);
          set.add(member);
        } else {
          model.delete(name);
          set.delete(known);
        }
        expect(Array.from(set, (member) => member.name)).toEqual([...model.keys()]);
      }
    }),
  );
});
