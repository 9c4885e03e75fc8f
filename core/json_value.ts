/**
 * Finds the first part of a value that JSON would change or leave out, such as a date, a map or `NaN`. Members
 * that are undefined count as missing.
 *
 * @param value The value.
 * @param path The path of the value, for the answer.
 * @returns The path of that part and what it is; undefined if JSON has the whole value.
 */
export function nonJsonPartOf(value: unknown, path = "value"): string | undefined {
  return partOf(value, path, new Set());
}

function partOf(value: unknown, path: string, parents: Set<object>): string | undefined {
  if (value === null || typeof value === "string" || typeof value === "boolean") return undefined;
  if (typeof value === "number") {
    return Number.isFinite(value) ? undefined : `'${path}' is ${value}`;
  }
  if (typeof value !== "object") return `'${path}' is of type ${typeof value}`;
  if (parents.has(value)) return `'${path}' is part of itself`;
  const isArray = Array.isArray(value);
  if (!isArray && !isPlain(value)) return `'${path}' is a ${value.constructor?.name || "class"}`;
  parents.add(value);
  const members = isArray
    ? Array.from(value, (each, i) => [`${path}[${i}]`, each] as const)
    : Object.entries(value).flatMap(([key, each]) =>
      each === undefined ? [] : [[`${path}.${key}`, each] as const]
    );
  for (const [name, each] of members) {
    const found = partOf(each, name, parents);
    if (found) return found;
  }
  parents.delete(value);
  return undefined;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return (prototype === null || prototype === Object.prototype) && !("toJSON" in value);
}
