import type { Projection } from './define.ts'
import { deliveries } from './deliveries/project.ts'
import { emails } from './emails/project.ts'

/** Every projection, by name. */
export const projections = { emails, deliveries } satisfies Record<string, Projection>
