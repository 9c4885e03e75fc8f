import { assertLess } from "@std/assert";
import { testWith, UNLESS_LINUX } from "../_permissions.ts";
import { ENGINES } from "../events/store/engines/mod.ts";
import { drainBacklog } from "./_backlog.ts";

const EVENTS = 100_000;

/** Memory that a process may hold while it drains a backlog, beyond what it holds when idle: 50 to 64 is usual. */
const MAX_MB = 80;

/** It takes some 90 MB in a SQLite file, so this is a promise of a KV alone. */
const TOO_LARGE = ["sqlite"];

for (const engine of ENGINES) {
  const name = `a backlog of ${EVENTS} events is drained within ${MAX_MB} MB [${engine.name}]`;
  testWith(["net", "read", "write", "run", "env"], name, async () => {
    const { mostMb } = await drainBacklog(engine, EVENTS);
    assertLess(mostMb, MAX_MB);
  }, UNLESS_LINUX ?? (TOO_LARGE.includes(engine.name) ? "takes more" : engine.shared.missing));
}
