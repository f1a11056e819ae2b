/** Groups of at most `max`, in their order. */
export function groupsOf<T> (items: readonly T[], max: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / max) }, (_, i) => items.slice(i * max, (i + 1) * max))
}
