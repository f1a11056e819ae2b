// What pages do by themselves: hear that something has happened, keep times true, copy, ask before it hurts. No page
// needs it to be read.
;(() => {
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

  const tell = kind => document.body.dispatchEvent(new CustomEvent(`live-${kind}`))
  /** What somebody is asked about, or has sent and waits for, is not changed under their hands: it is drawn anew
   *  afterwards. */
  const isBusy = () => document.querySelector('dialog[open], form[data-sent]') !== null
  let missed = false
  addEventListener('htmx:beforeSwap', ({ detail }) => {
    if (!isBusy()) return
    detail.shouldSwap = false
    missed = true
  })
  function catchUp () {
    if (!missed || isBusy()) return
    missed = false
    LIVE_KINDS.forEach(tell)
  }

  /** One line to the server a page that somebody looks at; when they come back to it, it looks at everything once. */
  function listen (url) {
    let line = null
    let timer = null
    let isDown = false
    function open () {
      if (line !== null) return
      line = new EventSource(url)
      for (const kind of LIVE_KINDS) line.addEventListener(kind, () => tell(kind))
      line.addEventListener('open', () => {
        clearTimeout(timer)
        timer = null
        if (!isDown) return
        isDown = false
        showStale()
        LIVE_KINDS.forEach(tell)
      })
      line.addEventListener('error', () => {
        // From the first of them on: as long as nobody answers there is one every two seconds.
        timer ??= setTimeout(() => {
          isDown = line !== null && line.readyState !== EventSource.OPEN
          showStale()
        }, 4000)
        if (line?.readyState !== EventSource.CLOSED) return
        // What the browser has given up it does not take up again. Perhaps nobody is signed in any more: who looks at
        // something is sent to the door.
        LIVE_KINDS.forEach(tell)
        setTimeout(() => {
          close()
          if (!document.hidden) open()
        }, 5000)
      })
    }
    function close () {
      clearTimeout(timer)
      timer = null
      line?.close()
      line = null
    }
    /** A part that could not be drawn anew says so until it is. */
    function showStale () {
      document.getElementById('stale').hidden = !isDown && document.querySelector('[data-failed]') === null
    }
    for (const name of ['htmx:responseError', 'htmx:sendError', 'htmx:timeout']) {
      addEventListener(name, ({ detail }) => {
        detail.target.dataset.failed = ''
        showStale()
      })
    }
    addEventListener('htmx:afterSwap', ({ detail }) => {
      delete detail.target.dataset.failed
      showStale()
    })
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) return close()
      open()
      LIVE_KINDS.forEach(tell)
    })
    addEventListener('pagehide', close)
    addEventListener('pageshow', () => {
      if (!document.hidden) open()
    })
    if (!document.hidden) open()
  }
  if (document.body.dataset.live !== undefined) listen(document.body.dataset.live)

  /** Said to whoever does not see it; a button keeps the name by which it is found. */
  const said = Object.assign(document.createElement('p'), { className: 'unseen', role: 'status' })
  document.body.append(said)

  async function copy (button) {
    const isCopied = await copied(button.dataset.copy)
    button.focus()
    // What cannot be copied by a script can be by a hand.
    if (!isCopied) getSelection().selectAllChildren(button.parentElement.querySelector('code'))
    button.textContent = isCopied ? 'Copied' : 'Not copied'
    said.textContent = isCopied ? 'Copied' : 'Not copied: it is selected, for you to copy'
    setTimeout(() => {
      button.textContent = 'Copy'
      said.textContent = ''
    }, 3000)
  }

  /** Browsers have no clipboard for pages that came by plain http, and may refuse it to others. */
  async function copied (text) {
    try {
      await navigator.clipboard.writeText(text)
      return true
    } catch {
      const area = Object.assign(document.createElement('textarea'), { value: text })
      document.body.append(area)
      area.select()
      const isCopied = document.execCommand('copy')
      area.remove()
      return isCopied
    }
  }

  /** The form that somebody has just said yes to. */
  let agreed = null

  /** Sends the form once somebody has said yes to what it does. */
  function ask (form, submitter) {
    const dialog = document.createElement('dialog')
    const text = Object.assign(document.createElement('p'), { textContent: form.dataset.confirm, id: 'confirm-text' })
    const no = Object.assign(document.createElement('button'), {
      type: 'button',
      textContent: 'Cancel',
      autofocus: true
    })
    const yes = Object.assign(document.createElement('button'), {
      type: 'button',
      textContent: form.dataset.confirmLabel,
      className: 'danger'
    })
    const actions = Object.assign(document.createElement('div'), { className: 'actions' })
    actions.append(no, yes)
    dialog.append(text, actions)
    dialog.setAttribute('aria-labelledby', 'confirm-text')
    no.addEventListener('click', () => dialog.close())
    yes.addEventListener('click', () => {
      dialog.close()
      agreed = form
      form.requestSubmit(submitter)
      agreed = null
    })
    dialog.addEventListener('close', () => {
      dialog.remove()
      catchUp()
    })
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

  /** Nothing takes so long to answer: who is still here has stopped it. */
  const SENT_MS = 60_000
  addEventListener('submit', event => {
    const form = event.target
    if (form.dataset.confirm !== undefined && form !== agreed) {
      event.preventDefault()
      return ask(form, event.submitter)
    }
    form.removeAttribute('data-typed')
    if (form.method !== 'post') return
    form.dataset.sent = ''
    // Twice is what an impatient hand would say.
    setTimeout(() => {
      for (const button of form.querySelectorAll('button:not([type=button])')) button.disabled = true
    })
    setTimeout(comeBack, SENT_MS)
  })
  function comeBack () {
    for (const form of document.querySelectorAll('form[data-sent]')) delete form.dataset.sent
    for (const button of document.querySelectorAll('form button:disabled')) button.disabled = false
    catchUp()
  }
  // Browsers keep some pages as they were left, for whoever comes back to them by the history.
  addEventListener('pageshow', comeBack)

  // What somebody has typed and not sent is not lost by one wrong click.
  addEventListener('input', event => {
    event.target.form?.toggleAttribute('data-typed', true)
  })
  addEventListener('beforeunload', event => {
    if (document.querySelector('form[data-guard][data-typed]') !== null) event.preventDefault()
  })

  // A closed list changes with each arrow key, so by keys it is the button beside it that sends the form.
  let isByKeys = false
  addEventListener('keydown', () => {
    isByKeys = true
  }, true)
  addEventListener('pointerdown', () => {
    isByKeys = false
  }, true)
  addEventListener('change', event => {
    if (event.target.matches('[data-submit]') && !(isByKeys && event.target.localName === 'select')) {
      event.target.form.requestSubmit()
    }
  })

  addEventListener('keydown', event => {
    if (
      event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey ||
      event.target.closest('input, textarea, select, [contenteditable]')
    ) return
    const search = document.querySelector('input[type=search]')
    if (search === null) return
    event.preventDefault()
    search.focus()
    search.select()
  })
})()
