import type { Applied, CellChange, Change, Engine, SumChange } from "../engine.ts";
import { TooLargeError } from "../engine.ts";
import { encodeValue } from "../value_codec.ts";
import type { GroupIntake } from "./_group_intake.ts";
import type { StoreKeys } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { readAll } from "./_reads.ts";
import { isTooMuch, Tries, Write } from "./_write.ts";

type Refused = Extract<Applied, { readonly ok: false }>;

/** A check that tells why a change is refused if it does not hold. Without a reason the change is made anew. */
interface Check extends Deno.AtomicCheck {
  readonly why?: Refused["why"] | undefined;
}

/** Makes the method that changes a store. */
export function applying(
  parts: StoreParts,
  _joins: GroupIntake,
): Pick<Engine<Deno.AtomicOperation, Deno.Kv>, "apply"> {
  return {
    async apply(change) {
      try {
        return await applyAlone(parts, change);
      } catch (error) {
        throw isTooMuch(error) ? tooLarge(error) : error;
      }
    },
  };
}

/** Applies a change, anew while others change what it depends on. */
async function applyAlone(
  parts: StoreParts,
  change: Change<Deno.AtomicOperation>,
): Promise<Applied> {
  for (const tries = new Tries();; await tries.next()) {
    const write = new Write();
    addCells(write, parts.keys, change);
    write.isIntake = change.urgency === "intake";
    write.notifies = change.announce ?? false;
    const version = await parts.commits.commit(write, change.withinMs);
    if (version !== null) return { ok: true, version, written: [] };
    const refused = await refusalOf(parts, write);
    if (refused) return refused;
  }
}

/** Finds out why a change was refused; undefined if it is to be made anew. */
async function refusalOf({ kv }: StoreParts, { checks }: Write): Promise<Refused | undefined> {
  const entries = await readAll(kv, checks.map(({ key }) => key));
  for (const [i, { versionstamp, why }] of (checks as readonly Check[]).entries()) {
    if (why !== undefined && entries[i]!.versionstamp !== versionstamp) return { ok: false, why };
  }
  return undefined;
}

function addCells(
  write: Write,
  keys: StoreKeys,
  { cells = [], sums = [] }: {
    cells?: readonly CellChange[] | undefined;
    sums?: readonly SumChange[] | undefined;
  },
): void {
  for (const { key, version, after, forMs } of cells) {
    const stored = keys.cell(key);
    if (version !== undefined) {
      write.check({ key: stored, versionstamp: version, why: "cell" } as Check);
    }
    if (after === null) write.delete(stored);
    else if (after !== undefined) {
      write.set(stored, encodeValue(after), forMs === undefined ? undefined : { expireIn: forMs });
    }
  }
  for (const sum of sums) {
    if ("by" in sum) write.sum(keys.cell(sum.key), sum.by);
    else write.setSum(keys.cell(sum.key), sum.to);
  }
}

function tooLarge(cause: unknown): TooLargeError {
  return new TooLargeError(cause instanceof Error ? cause.message : String(cause), { cause });
}
