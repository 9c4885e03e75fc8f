/** Ways to hold the commits of a KV, and to limit what they take. */
import { withOperations } from "../../../../dev/harness/faulty_kv.ts";
import { later } from "../_events.ts";

/** Has the commits of a KV wait until they are let go. */
export function holdCommits(kv: Deno.Kv): { readonly kv: Deno.Kv; readonly held: (() => void)[] } {
  const held: (() => void)[] = [];
  const slow = withOperations(kv, (operation) => {
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      await new Promise<void>((resolve) => held.push(resolve));
      return await commit();
    };
  });
  return { kv: slow, held };
}

/** Lets commits go until something is settled. */
export async function letGo<T>(held: (() => void)[], wanted: Promise<T>): Promise<T> {
  let isSettled = false;
  const settled = wanted.finally(() => isSettled = true);
  settled.catch(() => {});
  while (!isSettled) {
    for (const release of held.splice(0)) release();
    await later(0);
  }
  return await settled;
}

/** More commits than anything here can need. */
const FAR_TOO_MANY = 200;

/** Has a KV take only so many checks per commit: a remote one takes 10. Tells how many commits were tried. */
export function limitChecks(kv: Deno.Kv, max: number): { tried: number } {
  const commits = { tried: 0 };
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const operation = atomic();
    const [check, commit] = [operation.check.bind(operation), operation.commit.bind(operation)];
    let checks = 0;
    operation.check = (...added) => {
      checks += added.length;
      return check(...added);
    };
    operation.commit = async () => {
      if (++commits.tried > FAR_TOO_MANY) throw new Error("This has no end");
      if (checks > max) throw new TypeError("Too many checks included in atomic write.");
      return await commit();
    };
    return operation;
  };
  return commits;
}
