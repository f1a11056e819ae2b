// The palette: ⌘K finds pages, actions, ids, addresses and subjects, which the server searches for; `g` and a letter
// go somewhere.
;(() => {
  'use strict'
  const WAIT_MS = 100
  const GO = {
    e: '/emails',
    o: '/overview',
    w: '/webhooks',
    d: '/domains',
    t: '/templates',
    k: '/keys',
    s: '/suppressions'
  }
  const palette = document.getElementById('palette')
  if (palette === null) return
  const input = palette.querySelector('input')
  const found = document.getElementById('found')
  const links = () => [...found.querySelectorAll('a')]
  let asked = 0
  let timer = null

  async function search () {
    const turn = ++asked
    const answer = await fetch(`/dashboard/find?part=options&q=${encodeURIComponent(input.value)}`, {
      headers: { 'hx-request': 'true' },
      signal: AbortSignal.timeout(10_000)
    }).catch(() => null)
    // The session may have ended.
    if (answer?.status === 401) return location.reload()
    if (turn !== asked || answer === null || !answer.ok) return
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
    found.replaceChildren(...page.body.childNodes)
    choose(0)
  }

  function choose (at) {
    const all = links()
    const chosen = all.length === 0 ? null : all[(at + all.length) % all.length]
    for (const link of all) link.setAttribute('aria-selected', String(link === chosen))
    chosen?.scrollIntoView({ block: 'nearest' })
    if (chosen === null) input.removeAttribute('aria-activedescendant')
    else input.setAttribute('aria-activedescendant', chosen.id)
  }

  function open (text = '') {
    if (palette.open || document.querySelector('dialog[open]') !== null) return
    input.value = text
    palette.showModal()
    void search()
  }

  input.addEventListener('input', () => {
    clearTimeout(timer)
    timer = setTimeout(() => void search(), WAIT_MS)
  })
  input.addEventListener('keydown', event => {
    const all = links()
    const at = all.findIndex(link => link.getAttribute('aria-selected') === 'true')
    if (event.key === 'ArrowDown') choose(at + 1)
    else if (event.key === 'ArrowUp') choose(at - 1)
    else if (event.key === 'Enter') all[at]?.click()
    else return
    event.preventDefault()
  })
  // A click beside it closes it.
  palette.addEventListener('click', event => {
    if (event.target === palette) palette.close()
  })

  let isGoing = false
  addEventListener('keydown', event => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault()
      return palette.open ? palette.close() : open()
    }
    if (event.metaKey || event.ctrlKey || event.altKey) return
    // For a moment after it is closed the focus is still in it.
    const isLeft = !palette.open && palette.contains(event.target)
    if (!isLeft && event.target.closest('input, textarea, select, dialog, [contenteditable]')) return
    if (event.key === '?') {
      event.preventDefault()
      return open('?')
    }
    if (isGoing && GO[event.key] !== undefined) location.assign(`/dashboard${GO[event.key]}`)
    isGoing = event.key === 'g'
  })

  for (const button of document.querySelectorAll('[data-palette]')) {
    button.addEventListener('click', event => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return
      event.preventDefault()
      open()
    })
  }
})()
