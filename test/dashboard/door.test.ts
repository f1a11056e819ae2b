import t from 'tap'
import { openPage, signIn } from '../support/browser.ts'
import { API_KEY, openTestHouse } from '../support/house.ts'

const house = await openTestHouse(t)

t.test('a person signs in with a key, comes to the overview, and signs out', async t => {
  const { page, complaints } = await openPage(t, house.url)
  await signIn(page, API_KEY)
  t.equal(await page.title(), 'Overview · Jetpost')
  await page.screenshot({ path: '/tmp/lab/overview.png' })
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.waitForURL('**/sign-in')
  await page.screenshot({ path: '/tmp/lab/signin.png' })
  t.strictSame(complaints, [])
})
