import { Type } from '@sinclair/typebox'
import { RecipientStatus } from '#projections/emails/status.ts'

/** Some of an email's recipients, and how each stands. */
export const Standings = Type.Array(Type.Object({
  n: Type.Integer(),
  address: Type.String(),
  status: RecipientStatus,
  may_have_arrived: Type.Optional(
    Type.Literal(true, { description: "An earlier copy's fate is not known: it may be there." })
  )
}))
