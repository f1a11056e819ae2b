import { audit } from './audit/project.ts'
import type { Projection } from './define.ts'
import { deliveries } from './deliveries/project.ts'
import { emails } from './emails/project.ts'
import { erasures } from './erasures/project.ts'
import { stats } from './stats/project.ts'
import { suppressions } from './suppressions/project.ts'
import { templates } from './templates/project.ts'
import { usage } from './usage/project.ts'

/** Every projection, by name. */
export const projections = {
  emails,
  deliveries,
  suppressions,
  templates,
  stats,
  usage,
  erasures,
  audit
} satisfies Record<string, Projection>
