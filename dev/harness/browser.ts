import type { Browser } from "playwright-core";

/** Programs that tests look for. */
const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Finds a Chromium that is installed; undefined without one. */
export function findChromium(): string | undefined {
  return PROGRAMS.find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}

/** Starts a headless Chromium, which reaches this machine only. */
export async function startBrowser(executablePath: string): Promise<Browser> {
  // The sandbox needs rights that containers lack. The pages are the console's own.
  const args = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  ];
  // On loading it reads variables, which a test without permissions may not.
  const { chromium } = await import("playwright-core");
  return await chromium.launch({ executablePath, args });
}
