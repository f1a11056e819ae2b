import type { Projection } from './define.ts'
import { deliveries } from './deliveries/project.ts'
import { emails } from './emails/project.ts'
import { suppressions } from './suppressions/project.ts'
import { templates } from './templates/project.ts'

/** Every projection, by name. */
export const projections = { emails, deliveries, suppressions, templates } satisfies Record<string, Projection>
