import { JetpostError } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { Memory } from '#src/base/memory.ts'
import { newSecret } from '#src/base/secret.ts'
import { FormRefused, type Visit } from './visit.ts'

const DONE_MAX = 10_000

/** For forms that make something and show its secret as their answer: a browser that is told to load that again sends
 *  them again, and would make another. */
export interface SubmitOnce {
  /** Goes into the form. */
  mark(): Html
  /** Does what the form asks for; throws Unfit when it was sent before, unless the API refused it then. */
  run<T>(visit: Visit, work: () => Promise<T>): Promise<T>
}

export function createSubmitOnce (): SubmitOnce {
  const done = new Memory<true>(DONE_MAX)
  return {
    mark: () => html`<input type="hidden" name="once" value="${newSecret('')}">`,
    async run ({ session, form }, work) {
      const mark = `${session.id} ${form.get('once')}`
      if (done.has(mark)) {
        throw new FormRefused(
          'This form was sent already. A secret is not shown again: look whether what it belongs to was made, and open the form anew.'
        )
      }
      done.set(mark, true)
      try {
        return await work()
      } catch (error) {
        if (error instanceof JetpostError && error.status !== null && error.status < 500) done.delete(mark)
        throw error
      }
    }
  }
}
