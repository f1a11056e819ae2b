// What pages do by themselves: hear that something has happened, keep times true, copy, ask before it hurts. No page needs it to be read.
(() => {
  'use strict'
  const UNITS = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1000]]
  const LIVE_KINDS = ['emails', 'deliveries']

  /** In the words of parts.ts. */
  function distance (ms) {
    const away = Math.abs(ms)
    const [unit, size] = UNITS.find(([, unitMs]) => away >= unitMs) ?? ['s', 1000]
    const count = Math.floor(away / size)
    if (unit === 's' && count < 5) return 'now'
    return ms < 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`
  }

  function keepTimes () {
    for (const time of document.querySelectorAll('time[datetime]')) {
      const text = distance(Date.parse(time.dateTime) - Date.now())
      if (time.textContent !== text) time.textContent = text
    }
  }
  setInterval(keepTimes, 5000)

  // What is drawn anew keeps what somebody has opened, and what a script has drawn into elements with data-own.
  Object.assign(Idiomorph.defaults.callbacks, {
    beforeAttributeUpdated: (name, element) => name !== 'open' || element.localName !== 'details',
    beforeNodeMorphed: node => node.dataset?.own === undefined
  })

  /** One line to the server a page that somebody looks at; when they come back to it, it looks at everything once. */
  function listen (url) {
    let line = null
    let timer = null
    const stale = document.getElementById('stale')
    const tell = kind => document.body.dispatchEvent(new CustomEvent(`live-${kind}`))
    function open () {
      if (line !== null) return
      line = new EventSource(url)
      for (const kind of LIVE_KINDS) line.addEventListener(kind, () => tell(kind))
      line.addEventListener('open', () => {
        clearTimeout(timer)
        timer = null
        if (stale.hidden) return
        stale.hidden = true
        LIVE_KINDS.forEach(tell)
      })
      line.addEventListener('error', () => {
        // From the first of them on: as long as nobody answers there is one every two seconds.
        timer ??= setTimeout(() => { stale.hidden = line === null || line.readyState === EventSource.OPEN }, 4000)
        // What the browser has given up it does not take up again.
        if (line?.readyState === EventSource.CLOSED) setTimeout(() => { close(); if (!document.hidden) open() }, 5000)
      })
    }
    function close () {
      clearTimeout(timer)
      timer = null
      line?.close()
      line = null
    }
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) return close()
      open()
      LIVE_KINDS.forEach(tell)
    })
    addEventListener('pagehide', close)
    addEventListener('pageshow', () => { if (!document.hidden) open() })
    if (!document.hidden) open()
  }
  if (document.body.dataset.live !== undefined) listen(document.body.dataset.live)

  async function copy (button) {
    const text = button.dataset.copy
    await navigator.clipboard.writeText(text).catch(() => {
      const area = Object.assign(document.createElement('textarea'), { value: text })
      document.body.append(area)
      area.select()
      document.execCommand('copy')
      area.remove()
    })
    button.textContent = 'Copied'
    setTimeout(() => { button.textContent = 'Copy' }, 1500)
  }

  /** Sends the form once somebody has said yes to what it does. */
  function ask (form, submitter) {
    const dialog = document.createElement('dialog')
    const text = Object.assign(document.createElement('p'), { textContent: form.dataset.confirm, id: 'confirm-text' })
    const no = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Cancel', autofocus: true })
    const yes = Object.assign(document.createElement('button'), { type: 'button', textContent: form.dataset.confirmLabel, className: 'danger' })
    const actions = Object.assign(document.createElement('div'), { className: 'actions' })
    actions.append(no, yes)
    dialog.append(text, actions)
    dialog.setAttribute('aria-labelledby', 'confirm-text')
    no.addEventListener('click', () => dialog.close())
    yes.addEventListener('click', () => {
      form.dataset.asked = 'yes'
      dialog.close()
      form.requestSubmit(submitter)
    })
    dialog.addEventListener('close', () => dialog.remove())
    document.body.append(dialog)
    dialog.showModal()
  }

  addEventListener('click', event => {
    const copying = event.target.closest('[data-copy]')
    if (copying !== null) void copy(copying)
    const toggling = event.target.closest('[data-toggle]')
    if (toggling !== null) {
      const open = document.getElementById(toggling.dataset.toggle).classList.toggle('open')
      toggling.setAttribute('aria-expanded', String(open))
    }
  })

  addEventListener('submit', event => {
    const form = event.target
    if (form.dataset.confirm !== undefined && form.dataset.asked !== 'yes') {
      event.preventDefault()
      return ask(form, event.submitter)
    }
    // Twice is what an impatient hand would say.
    if (form.method === 'post') setTimeout(() => { for (const button of form.querySelectorAll('button:not([type=button])')) button.disabled = true })
  })
  // Who comes back by the history finds the form as it was.
  addEventListener('pageshow', () => {
    for (const form of document.querySelectorAll('form[data-asked]')) delete form.dataset.asked
    for (const button of document.querySelectorAll('form button:disabled')) button.disabled = false
  })

  // What somebody has typed and not sent is not lost by one wrong click.
  addEventListener('input', event => { event.target.form?.toggleAttribute('data-typed', true) })
  addEventListener('submit', event => { if (!event.defaultPrevented) event.target.removeAttribute('data-typed') })
  addEventListener('beforeunload', event => { if (document.querySelector('form[data-guard][data-typed]') !== null) event.preventDefault() })

  addEventListener('change', event => {
    if (event.target.matches('[data-submit]')) event.target.form.requestSubmit()
  })

  addEventListener('keydown', event => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select, [contenteditable]')) return
    const search = document.querySelector('input[type=search]')
    if (search === null) return
    event.preventDefault()
    search.focus()
    search.select()
  })
})()
