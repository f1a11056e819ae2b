// Asks the browser for a passkey, and sends what it answers with the form. Without passkeys the form stays hidden.
;(() => {
  'use strict'
  const canUse = typeof PublicKeyCredential === 'function' &&
    typeof PublicKeyCredential.parseRequestOptionsFromJSON === 'function'

  async function answer (url) {
    const response = await fetch(url, { headers: { accept: 'application/json' } })
    if (!response.ok) throw new Error('The page is too old: reload it.')
    const { options, ceremony } = await response.json()
    const credential = 'user' in options
      ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
      : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) })
    return { ceremony, credential: JSON.stringify(credential.toJSON()) }
  }

  for (const form of document.querySelectorAll('form[data-passkey]')) {
    if (!canUse) continue
    form.hidden = false
    const fault = form.querySelector('[data-fault]')
    const [sealed, answered] = [form.querySelector('[data-ceremony]'), form.querySelector('[data-credential]')]
    form.addEventListener('submit', async event => {
      if (answered.value !== '') return
      event.preventDefault()
      event.stopImmediatePropagation()
      fault.hidden = true
      try {
        const { ceremony, credential } = await answer(form.dataset.passkey)
        sealed.value = ceremony
        answered.value = credential
        form.requestSubmit()
      } catch (error) {
        fault.textContent = error.name === 'NotAllowedError'
          ? 'No passkey was used. Try again, or sign in another way.'
          : error.name === 'InvalidStateError'
          ? 'This device has a passkey of yours already.'
          : error.message
        fault.hidden = false
      }
    }, { capture: true })
  }
})()
