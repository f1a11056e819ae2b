import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Refusal } from '#streams/define.ts'
import { suppressible } from '#streams/suppression/decide.ts'
import { REASONS, type SuppressionReason } from '#streams/suppression/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { EXPORT_FORMATS } from '#src/actions/export.ts'
import { exportSuppressions } from '#src/actions/suppression-export.ts'
import { importSuppressions, type WantedSuppression } from '#src/actions/suppression-import.ts'
import { parseTime } from '#src/base/clock.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { refuseFaults, schemaFaults, type Api } from './context.ts'
import { BIG_BODY_BYTES_MAX } from './body-budget.ts'
import { sendFile } from './export.ts'
import { bodyTooLarge, FaultList, invalid, notTaken } from './errors.ts'
import { encodingProblem } from './json-body.ts'
import { askerOf, MUST_BE_TIME, textReader, timeText } from './params.ts'
import {
  LINES_MAX,
  readUpload,
  UPLOAD_TYPES,
  type UnreadLine,
  type UploadLine,
  type UploadType
} from './suppression-lines.ts'

const reason = (description: string) =>
  Type.Optional(Type.Union(REASONS.map(reason => Type.Literal(reason)), { description }))

const ImportQuery = Type.Object({
  reason: reason('Of all lines: what they say themselves is not read. Left out, each line may say it, else `manual`.')
}, { additionalProperties: false })

/** `lines` = `added` + `unchanged` + the length of `refused`. */
const ImportAnswer = Type.Object({
  lines: Type.Integer({ description: 'How many lines there were with something in them.' }),
  added: Type.Integer({ description: 'Lines that suppressed an address, or gave it one more reason.' }),
  unchanged: Type.Integer({ description: 'Lines that said what stood already, or what a line before had said.' }),
  refused: Type.Array(
    Type.Object({
      line: Type.Integer({ description: 'Its number in the file, from 1.' }),
      code: Type.String(),
      message: Type.String()
    }),
    { description: 'Lines that suppressed nothing, and why: all of them.' }
  )
}, {
  examples: [{
    lines: 3,
    added: 1,
    unchanged: 1,
    refused: [{ line: 4, code: 'invalid_address', message: 'address must be an email address.' }]
  }]
})

const ExportQuery = Type.Object({
  format: Type.Optional(
    Type.Union(EXPORT_FORMATS.map(format => Type.Literal(format)), { description: '`csv` when left out.' })
  ),
  reason: reason('Suppressed for this reason.'),
  created_after: Type.Optional(timeText('Suppressed then or later.')),
  created_before: Type.Optional(timeText('Suppressed before then.'))
}, { additionalProperties: false })

const IMPORT_DESCRIPTION =
  `Up to ${LINES_MAX} addresses, 20 MB, as \`text/csv\` or \`application/x-ndjson\`, in UTF-8. In CSV the first line
names the columns: \`address\` or \`email\`, and perhaps \`reason\`; without such a line they are the first and the
second. Commas, semicolons and tabs part them. In NDJSON each line is an object with \`address\`, and perhaps
\`reason\`. Everything else in a line is ignored.

All of the file is read before the first address is suppressed: a file that is too long, or no CSV, changes nothing. A
line that is wrong does not keep others out; \`refused\` lists every one of them. What stands already stays as it is, so
the same file may be sent again, also after a 503 in the middle of it.`

const EXPORT_DESCRIPTION =
  `All suppressed addresses as a file, newest first, a line for each reason of an address, with \`address\`,
\`reason\`, \`email_id\` and \`since\`. An import reads it. An address that was erased is empty, or null. The answer
is streamed: one that breaks off is not complete. A client that reads nothing for a minute is disconnected.`

/** Suppressions in files. */
export function suppressionFileRoutes (app: Api, services: Services, reads: Reads): void {
  exportRoute(app, reads)
  void app.register(async plain => {
    plain.removeAllContentTypeParsers()
    plain.addContentTypeParser([...UPLOAD_TYPES], (request, payload, done) => {
      const problem = encodingProblem(request)
      if (problem !== null) return done(problem)
      const bytes = Number(request.headers['content-length'] ?? 0)
      if (bytes > BIG_BODY_BYTES_MAX) return done(bodyTooLarge(BIG_BODY_BYTES_MAX))
      done(null, payload)
    })
    importRoute(plain.withTypeProvider<TypeBoxTypeProvider>(), services)
  })
}

/** The body is read as it arrives, by the route. */
function importRoute (app: Api, services: Services): void {
  app.post('/suppressions/import', {
    bodyLimit: BIG_BODY_BYTES_MAX,
    config: { scope: 'suppressions:write', errors: [409], uploads: UPLOAD_TYPES },
    schema: {
      operationId: 'importSuppressions',
      summary: 'Suppress many addresses',
      description: IMPORT_DESCRIPTION,
      tags: ['Suppressions'],
      querystring: ImportQuery,
      response: { 200: ImportAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request)
    const type = typeOf(request)
    if (type === undefined) throw notTaken(UPLOAD_TYPES)
    const lines = await readUpload(request.body as AsyncIterable<Buffer>, type)
    const { wanted, refused } = judge(lines, request.query.reason)
    const added = await importSuppressions(services, askerOf(request), wanted)
    return { lines: lines.length, added, unchanged: wanted.length - added, refused }
  })
}

function typeOf ({ headers }: FastifyRequest): UploadType | undefined {
  const given = headers['content-type']?.split(';', 1)[0]!.trim().toLowerCase()
  return UPLOAD_TYPES.find(type => type === given)
}

/** What is to be suppressed, and the lines that cannot be. `forAll` = the reason of all lines. */
function judge (
  lines: ReadonlyArray<UploadLine | UnreadLine>,
  forAll: SuppressionReason | undefined
): { wanted: WantedSuppression[], refused: UnreadLine[] } {
  const wanted: WantedSuppression[] = []
  const refused: UnreadLine[] = []
  for (const line of lines) {
    if ('code' in line) {
      refused.push(line)
      continue
    }
    const address = suppressible(line.address)
    const said = (line.reason ?? 'manual').toLowerCase()
    const reason = forAll ?? REASONS.find(name => name === said)
    if (address instanceof Refusal) refused.push({ line: line.line, code: address.code, message: address.message })
    else if (reason === undefined) refused.push({ line: line.line, code: 'invalid_reason', message: MUST_BE_REASON })
    else wanted.push({ address, reason })
  }
  return { wanted, refused }
}

const MUST_BE_REASON = `reason must be ${REASONS.join(', ').replace(/, ([^,]*)$/, ' or $1')}.`

function exportRoute (app: Api, reads: Reads): void {
  app.get('/suppressions/export', {
    config: { scope: 'suppressions:read' },
    schema: {
      operationId: 'exportSuppressions',
      summary: 'Export suppressed addresses',
      description: EXPORT_DESCRIPTION,
      tags: ['Suppressions'],
      querystring: ExportQuery,
      produces: ['text/csv', 'application/x-ndjson']
    },
    attachValidation: true
  }, async (request, reply) => {
    const { format = 'csv', reason = null, ...times } = readExport(request)
    const lines = await exportSuppressions(reads, { account: request.principal!.account, reason, ...times }, format)
    return await sendFile(request, reply, { name: 'suppressions', format, lines })
  })
}

/** Throws 422 with every fault at once. */
function readExport (
  request: FastifyRequest
): Pick<Static<typeof ExportQuery>, 'format' | 'reason'> & { afterMs: number | null, beforeMs: number | null } {
  const faults = new FaultList(schemaFaults(request))
  const query = request.query as Static<typeof ExportQuery>
  const read = textReader(query, faults)
  const msOf = (field: 'created_after' | 'created_before') => read(field, parseTime, 'invalid_value', MUST_BE_TIME)
  const times = { afterMs: msOf('created_after'), beforeMs: msOf('created_before') }
  if (faults.all.length > 0) throw invalid(faults.all)
  return { format: query.format, reason: query.reason, ...times }
}
