import { JetpostError } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { Memory } from '#src/base/memory.ts'
import { newSecret } from '#src/base/secret.ts'
import { FormRefused, type Visit } from './visit.ts'

const DONE_MAX = 10_000

/** For forms whose answer is a page with a new secret: reloading that page sends the form again, which would create
 *  another one. */
export interface SubmitOnce {
  /** The form's hidden field. */
  field(): Html
  /** Does what the form asks for. Throws FormRefused when it was sent before, unless the API refused it then. */
  run<T>(visit: Visit, work: () => Promise<T>): Promise<T>
}

const SENT_BEFORE = 'This form was already sent, and its secret is not shown again. ' +
  'Check what was created, then open the form again.'

export function createSubmitOnce (): SubmitOnce {
  const done = new Memory<true>(DONE_MAX)
  return {
    field: () => html`<input type="hidden" name="once" value="${newSecret('')}">`,
    async run ({ session, form }, work) {
      const name = `${session.id} ${form.get('once')}`
      if (done.has(name)) throw new FormRefused(SENT_BEFORE)
      done.set(name, true)
      try {
        return await work()
      } catch (error) {
        if (error instanceof JetpostError && error.status !== null && error.status < 500) done.delete(name)
        throw error
      }
    }
  }
}
