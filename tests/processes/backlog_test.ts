import { assertLess } from "@std/assert";
import { withFolder } from "../_folder.ts";
import { testWith, UNLESS_LINUX } from "../_permissions.ts";
import { drainBacklog } from "./_backlog.ts";

const EVENTS = 100_000;

/** Memory that a process may hold while it drains a backlog, beyond what it holds when idle: 50 to 64 is usual. */
const MAX_MB = 80;

const name = `a backlog of ${EVENTS} events is drained within ${MAX_MB} MB`;
testWith(["net", "read", "write", "run", "env"], name, async () => {
  await withFolder(async (folder) => {
    const { mostMb } = await drainBacklog(`${folder}/kv.db`, EVENTS);
    assertLess(mostMb, MAX_MB);
  });
}, UNLESS_LINUX);
