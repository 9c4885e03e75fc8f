/** Longest time that a test may take. */
const LIMIT_MS = 300_000;

/** Real timers, also in a test that fakes them. */
const { setTimeout, clearTimeout } = globalThis;

/**
 * Fails each test that takes too long, for which Deno would wait for ever. Notes which tests begin and end, a line
 * each: a test that blocks the event loop can only be named from outside.
 */
export function noteTests(path: string): void {
  const { test } = Deno;
  const file = Deno.mainModule.split("/").slice(-3).join("/");
  const note = (what: string, name: string) =>
    Deno.writeTextFileSync(path, `${what} ${file}: ${name}\n`, { append: true });
  const noted = (name: string, fn: TestFunction): TestFunction => async (context) => {
    note("begin", name);
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new Error("The test did not end")), LIMIT_MS);
    try {
      await Promise.race([fn(context), late]);
    } finally {
      clearTimeout(timer);
      note("end", name);
    }
  };
  const value = (...args: readonly unknown[]) => test(definitionOf(args, noted));
  Object.defineProperty(Deno, "test", { value: Object.assign(value, test) });
}

type TestFunction = Deno.TestDefinition["fn"];

/** The one form that all forms of `Deno.test` can be written in. */
function definitionOf(
  args: readonly unknown[],
  noted: (name: string, fn: TestFunction) => TestFunction,
): Deno.TestDefinition {
  const options = args.find((each) => typeof each === "object") as Deno.TestDefinition | undefined;
  const fn = args.find((each) => typeof each === "function") as TestFunction ?? options?.fn;
  const name = args.find((each) => typeof each === "string") as string ?? options?.name ?? fn.name;
  return { ...options, name, fn: noted(name, fn) };
}
