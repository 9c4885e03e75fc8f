import { assert, assertEquals, assertMatch } from "@std/assert";
import { parse } from "yaml";
import { permissionsOf, SECRETS } from "../apps/_confined.ts";
import { testWith } from "../_permissions.ts";
import { type Image, readImage, readStages } from "./_dockerfile.ts";

const APPS = ["forge", "messenger"] as const;

interface Service {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly tmpfs: readonly string[];
  readonly volumes?: readonly string[];
  readonly [name: string]: unknown;
}

const read = (path: string) => Deno.readTextFile(new URL(`../../${path}`, import.meta.url));

async function readServices(): Promise<Readonly<Record<string, Service>>> {
  return parse(await read("deploy/compose.yaml"), { merge: true }).services;
}

/** Hosts that a health check may reach, and the paths it asks for. */
function healthCheck({ healthCheck }: Image): { allowed: string[]; asked: string[] } {
  const asked = healthCheck.slice(healthCheck.indexOf("deploy/health.ts") + 1);
  return { allowed: healthCheck.filter((arg) => arg.startsWith("--allow-")), asked };
}

for (const app of APPS) {
  testWith(["read"], `deploy/Dockerfile runs ${app} as deno.json permits it`, async () => {
    const { env, port, volume, cmd } = await readImage(app);
    const { net, write } = await permissionsOf(app);
    assertEquals(env.PORT, String(port));
    assert(net.includes(`0.0.0.0:${port}`));
    assertEquals(write, [`./data/${app}`]);
    assertEquals([volume, env.KV_URL], [`/app/data/${app}`, `./data/${app}/kv.db`]);
    assertEquals(cmd.slice(-2), [`-P=${app}`, `apps/${app}.ts`]);
    assertEquals(cmd.filter((arg) => arg.startsWith("--allow")), []);
  });

  testWith(["read"], `deploy/Dockerfile asks ${app} whether it is alive`, async () => {
    const image = await readImage(app);
    const allowed = [`--allow-net=127.0.0.1:${image.port}`];
    const asked = [`http://127.0.0.1:${image.port}/health/live`];
    assertEquals(healthCheck(image), { allowed, asked });
  });

  testWith(["read"], `deploy/compose.yaml runs ${app} as its image, but for the KV`, async () => {
    const { command = [], environment = {}, ...service } = (await readServices())[app]!;
    const { cmd, port } = await readImage(app);
    const kv = new URL(environment.KV_URL!);
    assertEquals(command.filter((arg) => !arg.startsWith("--allow-")), cmd);
    const allowed = command.filter((arg) => arg.startsWith("--allow-"));
    assertEquals(allowed, [`--allow-net=0.0.0.0:${port},${kv.host}`]);
    assertEquals(Number(kv.port), (await readImage(kv.hostname)).port);
    assertEquals(service.ports, [`127.0.0.1:${port}:${port}`]);
    assertEquals(service.depends_on, { [kv.hostname]: { condition: "service_healthy" } });
    assertEquals(service.env_file, [`${kv.hostname}.env`, `${app}.env`]);
  });

  testWith(["read"], `deploy/${app}.env.example names what the app needs to start`, async () => {
    const text = await read(`deploy/${app}.env.example`);
    assertMatch(text, /^(#.*\n|\w+=\n)+$/);
    const names = [...text.matchAll(/^(\w+)=$/gm)].map(([, name]) => name);
    const { env } = await permissionsOf(app);
    const needed = Object.keys(SECRETS).filter((name) => name !== "FORGE_WEBHOOK_TOKEN");
    assertEquals(names, needed.filter((name) => env.includes(name)));
  });
}

testWith(["read"], "deploy/Dockerfile runs nothing as root, and all on one version", async () => {
  for (const target of [...APPS, "denokv"]) {
    const { from, user } = await readImage(target);
    const image = "denoland/deno:distroless-${DENO_VERSION}${DISTROLESS_DIGEST}";
    assertEquals([from, user], [image, "65532:65532"]);
  }
  const [, version] = /DENO="deno@(.*)"/.exec(await read(".ci/run"))!;
  const stages = await readStages();
  assertEquals(stages.get("")![0], ["ARG", `DENO_VERSION=${version}`]);
  const from = "denoland/deno:${DENO_VERSION}${DENO_DIGEST} AS build";
  assertEquals(stages.get("build")![0], ["FROM", from]);
});

testWith(
  ["read"],
  "deploy/Dockerfile takes each image by its exact version, and may by a digest",
  async () => {
    const stages = await readStages();
    const given = new Map(stages.get("")!.map(([, value]) => value.split("=") as [string, string]));
    for (const [name, [from]] of stages) {
      const [image] = from?.[1].split(" ") ?? [];
      if (name === "" || stages.has(image!)) continue;
      const [, version, digest] = /:(?:[\w-]+-)?\$\{(\w+)\}\$\{(\w+)\}$/.exec(image!) ?? [];
      assertMatch(given.get(version!) ?? "", /^\d+\.\d+\.\d+$/, image);
      assertMatch(given.get(digest!) ?? "?", /^(?:@sha256:[0-9a-f]{64})?$/, image);
    }
    assertMatch(given.get("DENO_DIGEST")!, /^@sha256:/);
  },
);

testWith(["read"], "deploy/compose.yaml hardens each service", async () => {
  const services = await readServices();
  assertEquals(Object.keys(services).sort(), ["denokv", ...APPS]);
  for (const [name, service] of Object.entries(services)) {
    assertEquals(service.build, { context: "..", dockerfile: "deploy/Dockerfile", target: name });
    assertEquals([service.read_only, service.cap_drop], [true, ["ALL"]]);
    assertEquals(service.security_opt, ["no-new-privileges:true"]);
    const mounted = (service.volumes ?? []).map((volume) => volume.split(":")[1]!);
    assertEquals([...service.tmpfs, ...mounted], ["/tmp", (await readImage(name)).volume]);
  }
});

testWith(["read"], "deploy/compose.yaml lets nobody but the apps reach the KV server", async () => {
  const { denokv, ...apps } = await readServices();
  assertEquals([denokv!.ports, denokv!.networks], [undefined, ["kv"]]);
  for (const { networks } of Object.values(apps)) assertEquals(networks, ["default", "kv"]);
  assertEquals(parse(await read("deploy/compose.yaml")).networks, {
    default: null,
    kv: { internal: true },
  });
});
