// Refreshes parts of pages after changes, keeps times current, copies, asks for confirmation. All pages can be read
// without it.
;(() => {
  'use strict'
  // uPlot hands the browser's language to Intl as it loads, which refuses one that is no language tag, such as
  // `en-US@posix`: then no chart is drawn.
  try {
    Intl.getCanonicalLocales(navigator.language)
  } catch {
    Object.defineProperty(navigator, 'language', { value: 'en-GB', configurable: true })
  }

  const UNITS = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1000]]
  const TOPICS = ['emails', 'deliveries']

  /** As parts.ts writes it. */
  function distance (ms) {
    const away = Math.abs(ms)
    const [unit, size] = UNITS.find(([, unitMs]) => away >= unitMs) ?? ['s', 1000]
    const count = Math.floor(away / size)
    if (unit === 's' && count < 5) return 'now'
    return ms < 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`
  }

  function updateTimes () {
    for (const time of document.querySelectorAll('time[datetime]')) {
      const text = distance(Date.parse(time.dateTime) - Date.now())
      if (time.textContent !== text) time.textContent = text
    }
  }
  setInterval(updateTimes, 5000)

  // A refresh keeps open details open, and does not touch elements with data-own: scripts draw them.
  Object.assign(Idiomorph.defaults.callbacks, {
    beforeAttributeUpdated: (name, element) => name !== 'open' || element.localName !== 'details',
    beforeNodeMorphed: node => node.dataset?.own === undefined
  })

  /** Where the pointer is; null = not over the page, or it is a finger. */
  let pointer = null
  addEventListener('pointermove', ({ clientX, clientY, pointerType }) => {
    pointer = pointerType === 'mouse' ? { x: clientX, y: clientY } : null
  }, { passive: true })
  document.documentElement.addEventListener('pointerleave', () => {
    pointer = null
  })

  // New rows come above those that are there: what is under the pointer stays there, or a click would meet another row.
  let held = null
  addEventListener('htmx:beforeSwap', ({ detail }) => {
    const row = pointer === null ? null : document.elementFromPoint(pointer.x, pointer.y)?.closest('tr[id], li[id]')
    held = row && detail.target.contains(row) ? { id: row.id, top: row.getBoundingClientRect().top } : null
  })
  addEventListener('htmx:afterSwap', () => {
    const row = held === null ? null : document.getElementById(held.id)
    if (row === null) return
    const down = row.getBoundingClientRect().top - held.top
    const end = document.documentElement
    const missing = Math.ceil(down - (end.scrollHeight - end.clientHeight - scrollY))
    // A page that ends too early to be scrolled gets so much longer.
    if (missing > 0) document.body.style.paddingBottom = `${spare() + missing}px`
    scrollBy(0, down)
  })
  const spare = () => Number.parseFloat(document.body.style.paddingBottom) || 0

  const refresh = topic => document.body.dispatchEvent(new CustomEvent(`live-${topic}`))
  /** A confirmation is open, or a form is on its way: the page refreshes afterwards. */
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
    TOPICS.forEach(refresh)
  }

  class PageStream {
    source = null
    timer = null
    isDown = false

    constructor (url) {
      this.url = url
    }

    open () {
      if (this.source !== null) return
      this.source = new EventSource(this.url)
      for (const topic of TOPICS) this.source.addEventListener(topic, () => refresh(topic))
      this.source.addEventListener('open', () => this.onOpen())
      this.source.addEventListener('error', () => this.onError())
    }

    close () {
      clearTimeout(this.timer)
      this.timer = null
      this.source?.close()
      this.source = null
    }

    onOpen () {
      clearTimeout(this.timer)
      this.timer = null
      if (!this.isDown) return
      this.isDown = false
      this.showStale()
      TOPICS.forEach(refresh)
    }

    onError () {
      // From the first error on: while the server is away there is one every two seconds.
      this.timer ??= setTimeout(() => {
        this.isDown = this.source !== null && this.source.readyState !== EventSource.OPEN
        this.showStale()
      }, 4000)
      if (this.source?.readyState !== EventSource.CLOSED) return
      // The browser has given up and does not reconnect. Perhaps the session has ended: a refresh then leads to the
      // sign-in page.
      TOPICS.forEach(refresh)
      setTimeout(() => {
        this.close()
        if (!document.hidden) this.open()
      }, 5000)
    }

    /** Shown while the stream is down, or until a part that failed to refresh has refreshed. */
    showStale () {
      document.getElementById('stale').hidden = !this.isDown && document.querySelector('[data-failed]') === null
    }
  }

  /** One event stream per visible page. A page that becomes visible again refreshes once. */
  function listen (url) {
    const stream = new PageStream(url)
    watchRefreshes(() => stream.showStale())
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) return stream.close()
      stream.open()
      TOPICS.forEach(refresh)
    })
    addEventListener('pagehide', () => stream.close())
    addEventListener('pageshow', () => {
      if (!document.hidden) stream.open()
    })
    if (!document.hidden) stream.open()
  }

  /** A part that failed to refresh is marked until it has. */
  function watchRefreshes (onChange) {
    for (const name of ['htmx:responseError', 'htmx:sendError', 'htmx:timeout']) {
      addEventListener(name, ({ detail }) => {
        detail.target.dataset.failed = ''
        onChange()
      })
    }
    addEventListener('htmx:afterSwap', ({ detail }) => {
      delete detail.target.dataset.failed
      onChange()
    })
  }

  if (document.body.dataset.live !== undefined) listen(document.body.dataset.live)

  /** For screen readers: the button's label does not change. */
  const announcement = Object.assign(document.createElement('p'), { className: 'unseen', role: 'status' })
  document.body.append(announcement)

  async function copy (button) {
    const isCopied = await copied(button.dataset.copy)
    button.focus()
    // Selected, so that the visitor can copy it.
    if (!isCopied) getSelection().selectAllChildren(button.parentElement.querySelector('code'))
    button.textContent = isCopied ? 'Copied' : 'Not copied'
    announcement.textContent = isCopied ? 'Copied' : 'Not copied. The text is selected: copy it yourself.'
    setTimeout(() => {
      button.textContent = 'Copy'
      announcement.textContent = ''
    }, 3000)
  }

  /** Pages that came by http have no clipboard, and browsers may refuse it to others. */
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

  /** The form that was just confirmed. */
  let confirmed = null

  /** Sends the form once the visitor confirms it. */
  function confirmForm (form, submitter) {
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
      confirmed = form
      form.requestSubmit(submitter)
      confirmed = null
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

  /** No answer takes so long: the visitor has stopped the request. */
  const SENT_MS = 60_000
  addEventListener('submit', event => {
    const form = event.target
    if (form.dataset.confirm !== undefined && form !== confirmed) {
      event.preventDefault()
      return confirmForm(form, event.submitter)
    }
    form.removeAttribute('data-typed')
    if (form.method !== 'post') return
    form.dataset.sent = ''
    // A second click must not send it twice.
    setTimeout(() => {
      for (const button of form.querySelectorAll('button:not([type=button])')) button.disabled = true
    })
    setTimeout(enableForms, SENT_MS)
  })
  function enableForms () {
    for (const form of document.querySelectorAll('form[data-sent]')) delete form.dataset.sent
    for (const button of document.querySelectorAll('form button:disabled')) button.disabled = false
    catchUp()
  }
  // A page from the browser's history is as it was left.
  addEventListener('pageshow', enableForms)

  // The browser asks before it leaves a page with unsent changes.
  addEventListener('input', event => {
    event.target.form?.toggleAttribute('data-typed', true)
  })
  addEventListener('beforeunload', event => {
    if (document.querySelector('form[data-guard][data-typed]') !== null) event.preventDefault()
  })

  // A closed select changes with each arrow key, so keyboard users send the form with its button.
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
