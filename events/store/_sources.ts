import { OWN } from "./emission.ts";
import type { CellChange, CellKey } from "./engine.ts";
import { isText, shape } from "./record_shape.ts";
import type { StoreCore } from "./store_core.ts";

/** The kind of the cells of intakes and sources. */
const SOURCE = "source";

/** The note of an intake, or of a source of events that an app emits. */
interface SourceNote {
  /** The platform of its events. */
  readonly platform: string;
}

/** An intake or a source of events, with their platform. */
export interface KnownSource extends SourceNote {
  /** Its name. The ids of its events begin with it. */
  readonly name: string;
}

const isNote = shape<SourceNote>({ platform: isText });

/**
 * The names of the intakes and sources whose events a store holds. An app's platforms are known to the app alone: the
 * tool, or a program beside the app, has only the store. Each name is noted in the change that stores the first of its
 * events that this process stores.
 */
export class Sources {
  readonly #core: StoreCore;
  readonly #noted = new Set<string>();

  constructor(core: StoreCore) {
    this.#core = core;
  }

  /** Makes the note of an intake or a source; undefined if this process has noted it before, or the events have none. */
  noteOf(name: string | undefined, platform: string): readonly CellChange[] | undefined {
    if (name === undefined || this.#noted.has(name)) return undefined;
    return [{ key: keyOf(name), after: { platform } satisfies SourceNote }];
  }

  /** Remembers that names are noted, once their notes are stored. */
  noted(names: Iterable<string | undefined>): void {
    for (const name of names) if (name !== undefined) this.#noted.add(name);
  }

  /** Checks whether deliveries have come under a name. */
  async hasDeliveries(name: string): Promise<boolean> {
    const [cell] = await this.#core.engine.cells([keyOf(name)]);
    return isNote(cell!.value) && cell!.value.platform !== OWN;
  }
}

/** Lists the intakes and sources whose events a store has ever held, in the order of their names. */
export async function* sources({ engine }: StoreCore): AsyncGenerator<KnownSource> {
  for await (const { key, value } of engine.list([SOURCE])) {
    if (isNote(value)) yield { name: String(key.at(-1)), platform: value.platform };
  }
}

function keyOf(name: string): CellKey {
  return [SOURCE, name];
}
