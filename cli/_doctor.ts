import type { CheckedPage } from "../events/mod.ts";
import type { CliRun } from "./_commands.ts";
import { withProgress } from "./_output.ts";
import { confirmed } from "./_world.ts";

const DISCARDING = "Delete for good what cannot be read, except for events?";

/**
 * Checks a store: repairs what it can, and writes a line for each finding.
 *
 * @returns False if there are values that cannot be decoded.
 */
export async function doctor({ store, values, asks, world }: CliRun): Promise<boolean> {
  const { json, "discard-unreadable": discard = false } = values;
  const { out, terminal } = world;
  if (asks && !await confirmed(DISCARDING, world, new AbortController().signal)) return false;
  const { groups } = await store.tidy({ groups: true });
  const counts = { read: 0, groups, put_back: 0, unreadable: 0, discarded: 0 };
  await withProgress(terminal, "", async (line) => {
    for await (const { read, findings } of store.check({ discard })) {
      counts.read += read;
      line.show({ seen: counts.read, changed: 0 });
      for (const finding of findings) {
        counts[finding.is]++;
        line.clear();
        out(json ? JSON.stringify(finding) : textOf(finding));
      }
    }
  });
  if (json) out(JSON.stringify(counts));
  else for (const text of summaryOf(counts)) out(text);
  return counts.unreadable === 0;
}

function textOf(finding: CheckedPage["findings"][number]): string {
  if (finding.is === "put_back") return `put back: ${finding.eventId}`;
  const { is, kind, name } = finding;
  return `${is}: ${kind} ${name}`;
}

function summaryOf(
  { read, groups, put_back: putBack, unreadable, discarded }: Readonly<Record<string, number>>,
): string[] {
  const lines = [`${read} values read, ${putBack} events put back, ${groups} groups repaired`];
  if (discarded) lines.push(`${discarded} values deleted`);
  if (!unreadable) return lines;
  return [
    ...lines,
    `${unreadable} values cannot be read, and are left as they are. What depends on them waits.`,
    "If another version of the package wrote them, run that. If none can read them any more:",
    "  events purge --state unreadable        deletes the events among them",
    "  events doctor --discard-unreadable     deletes the others",
  ];
}
