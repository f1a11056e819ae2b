import { Type } from '@sinclair/typebox'
import { RecipientStatusSchema } from '#projections/emails/status.ts'

/** Some of an email's recipients, and how each stands. */
export const Standings = Type.Array(Type.Object({
  n: Type.Integer(),
  address: Type.String(),
  status: RecipientStatusSchema,
  may_have_arrived: Type.Optional(
    Type.Literal(true, { description: "An earlier copy's fate is not known: it may be there." })
  )
}))
