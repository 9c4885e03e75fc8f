/** An instruction of a Dockerfile, and what follows it. */
export type Instruction = readonly [name: string, value: string];

/** An image of `deploy/Dockerfile`, with the instructions of the stages that it is built on. */
export interface Image {
  readonly from: string;
  readonly user: string;
  readonly env: Readonly<Record<string, string>>;
  readonly volume: string;
  readonly port: number;
  readonly healthCheck: readonly string[];
  readonly cmd: readonly string[];
}

const PATH = new URL("../../deploy/Dockerfile", import.meta.url);

/** Reads the stages by their names; the arguments before the first one have the name "". */
export async function readStages(): Promise<ReadonlyMap<string, readonly Instruction[]>> {
  const text = await Deno.readTextFile(PATH);
  const lines = text.replaceAll(/^#.*\n/gm, "").replaceAll(/\\\n/g, " ").split("\n");
  let stage: Instruction[] = [];
  const stages = new Map<string, Instruction[]>([["", stage]]);
  for (const line of lines.filter((line) => line.trim() !== "")) {
    const [, name, value] = /^([A-Z]+)\s+(.*)$/.exec(line)!;
    if (name === "FROM") stages.set(/ AS (\S+)$/.exec(value!)![1]!, stage = []);
    stage.push([name!, value!]);
  }
  return stages;
}

/** Puts an image together from its stage and those that this one is built on. */
export async function readImage(target: string): Promise<Image> {
  const stages = await readStages();
  const instructions: Instruction[] = [];
  let from = target;
  while (stages.has(from)) {
    const stage = stages.get(from)!;
    instructions.unshift(...stage);
    from = stage.find(([name]) => name === "FROM")![1].split(" ")[0]!;
  }
  const last = (name: string) => instructions.findLast(([each]) => each === name)?.[1] ?? "";
  const env = instructions.filter(([name]) => name === "ENV").flatMap(([, value]) =>
    value.split(" ").map((pair) => pair.split("="))
  );
  return {
    from,
    user: last("USER"),
    env: Object.fromEntries(env),
    volume: last("VOLUME"),
    port: Number(last("EXPOSE")),
    healthCheck: JSON.parse(last("HEALTHCHECK").replace(/^.*?CMD\s+/, "")),
    cmd: JSON.parse(last("CMD")),
  };
}
