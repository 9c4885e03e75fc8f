import { assertLess } from "@std/assert";
import { byLength } from "../_length.ts";
import { testWith, UNLESS_LINUX } from "../_permissions.ts";
import { ENGINES } from "../events/store/engines/mod.ts";
import { drainBacklog } from "./_backlog.ts";

const EVENTS = byLength(100_000, 20_000);

/** Memory that a process may hold while it drains a backlog, beyond what it holds when idle: 50 to 64 is usual. */
const MAX_MB = 80;

/**
 * It takes 75 to 90 MB in a SQLite file, so this is a promise of a KV alone. No more is held than in a KV: 11 MB of V8's
 * heap live then, of which 9 do in an idle process. V8 lets them grow to four times as much, and by more if events come
 * faster; a Worker for the file takes 6 to 16 MB. With `--heap-growing-percent=20` it is 37 MB, and 44 in a KV.
 */
const TOO_LARGE = ["sqlite"];

for (const engine of ENGINES) {
  const name = `a backlog of ${EVENTS} events is drained within ${MAX_MB} MB [${engine.name}]`;
  testWith(["net", "read", "write", "run", "env"], name, async () => {
    const { mostMb } = await drainBacklog(engine, EVENTS);
    assertLess(mostMb, MAX_MB);
  }, UNLESS_LINUX ?? (TOO_LARGE.includes(engine.name) ? "takes more" : engine.shared.missing));
}
