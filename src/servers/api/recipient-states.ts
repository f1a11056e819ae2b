import { Type } from '@sinclair/typebox'
import { RecipientStatusSchema } from '#projections/emails/status.ts'

/** Some of an email's recipients, and the status of each. */
export const RecipientStates = Type.Array(Type.Object({
  n: Type.Integer(),
  address: Type.String(),
  status: RecipientStatusSchema,
  may_have_arrived: Type.Optional(
    Type.Literal(true, { description: 'Whether an earlier copy arrived is not known.' })
  )
}))
