/**
 * A process that stores events in a file, one after the other, until it is killed. It prints what becomes of each,
 * what it logs, and each change of what the check of its file says.
 *
 * The arguments are the path, and the bytes of a payload.
 */
import { openIn, sized } from "./_open.ts";

const [path, bytes] = Deno.args as [string, string];
const print = (line: Record<string, unknown>) => console.log(JSON.stringify(line));

const { store, file, lines } = await openIn(path);

function check(): string {
  try {
    file.check();
    return "fine";
  } catch (error) {
    return (error as Error).message;
  }
}

for (let [i, checked] = [0, ""];; i++) {
  const id = `d${i}`;
  await store.accept(sized(id, Number(bytes))).then(
    () => print({ stored: id }),
    ({ message }) => print({ refused: id, message }),
  );
  if (check() !== checked) print({ check: checked = check() });
  for (const { level, message } of lines.splice(0)) print({ level, message });
  await new Promise((resolve) => setTimeout(resolve, 2));
}
