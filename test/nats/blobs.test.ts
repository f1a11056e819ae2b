import { randomBytes } from 'node:crypto'
import t from 'tap'
import { CONTENT_STREAM, putBlob } from '#src/nats/blob-transfer.ts'
import { deleteSecurely, openBlobs, placesOfBlob } from '#src/nats/blobs.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { CONTENT_BUCKET } from '#streams/topology.ts'
import { openBus } from '../support/bus.ts'

const { bus } = await openBus(t)
const blobs = await openBlobs(bus)
const library = await bus.js.views.os(CONTENT_BUCKET)

t.test('what is stored is read as it was, by the client library too, and the other way round', async t => {
  for (const size of [0, 1, 128 * 1024, 128 * 1024 + 1, 3_000_000]) {
    const bytes = randomBytes(size)
    await blobs.put(`ours/${size}`, bytes)
    t.strictSame(Buffer.from((await blobs.get(`ours/${size}`))!), bytes, `${size} bytes`)
    t.strictSame(Buffer.from((await library.getBlob(`ours/${size}`))!), bytes)
    await library.putBlob({ name: `theirs?${size}` }, bytes)
    t.strictSame(Buffer.from((await blobs.get(`theirs?${size}`))!), bytes)
  }
  t.equal(await blobs.get('nothing'), null)
  t.ok((await blobs.list()).some(({ name }) => name === 'ours/1'))
  await library.delete('ours/1')
  t.equal(await blobs.get('ours/1'), null)
})

t.test('one that is put again replaces the first, whose pieces are strays', async t => {
  await putBlob(bus, 'twice', randomBytes(300_000), 5000)
  await blobs.put('twice', Buffer.from('second'))
  t.equal(Buffer.from((await blobs.get('twice'))!).toString(), 'second')
  t.equal(await blobs.removeStray(Date.now() + 60_000), 3)
  t.equal(Buffer.from((await blobs.get('twice'))!).toString(), 'second')
})

t.test('one that is not whole, or not what was stored, is not given', async t => {
  await blobs.put('cut', randomBytes(400_000))
  const [first] = await placesOfBlob(bus, 'cut')
  await deleteSecurely(bus, CONTENT_STREAM, [first!])
  t.ok(isUnanswered(await blobs.get('cut').catch(error => error)), 'a piece is missing')
  await blobs.put('changed', Buffer.from('what was stored'))
  const { nuid } = (await library.info('changed'))!
  const [place] = await placesOfBlob(bus, 'changed')
  await deleteSecurely(bus, CONTENT_STREAM, [place!])
  await bus.js.publish(`$O.${CONTENT_BUCKET}.C.${nuid}`, Buffer.from('what was changed'.slice(0, 15)))
  t.ok(isUnanswered(await blobs.get('changed').catch(error => error)), 'its hash is another')
})
