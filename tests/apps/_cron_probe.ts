/** Loaded before an app: it writes which crons are registered, and whether anything was waited for before. */
const { cron } = Deno;

// deno-lint-ignore no-explicit-any -- It passes on what either form of the call was given.
function probed(...args: any[]): Promise<void> {
  const [name, schedule] = args;
  const stack = String(new Error().stack);
  const waited = /\bat async /.test(stack) || !stack.includes("/apps/");
  console.log(JSON.stringify({ message: "cron", name, schedule, waited }));
  return Reflect.apply(cron, Deno, args);
}

Object.defineProperty(Deno, "cron", { value: probed });
