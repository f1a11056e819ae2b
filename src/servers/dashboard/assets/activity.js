// Activity: selects emails beside their list, draws the time track, and goes back in time on it. Without it the same
// links lead to pages of their own.
;(() => {
  'use strict'
  const SVG = 'http://www.w3.org/2000/svg'
  const PLAY_MS = 700
  const SCRUB_MS = 120
  /** Pixels that a pointer moves before it draws a range, and from a dot to its label. */
  const DRAG_PX = 6
  const NEAR_PX = 12
  const isWide = () => matchMedia('(min-width: 75rem)').matches
  const $ = id => document.getElementById(id)
  const url = () => new URL(location.href)

  /** The page at `to`, without loading what stays. One at a time: of those asked meanwhile the last one. */
  let going = null
  let next = null
  async function go (to) {
    next = to
    if (going !== null) return await going
    going = (async () => {
      while (next !== null) {
        const href = next.href
        next = null
        await htmx.ajax('GET', href, { target: '#activity', select: '#activity', swap: 'morph:outerHTML' })
        catchUp()
        history.replaceState(null, '', href)
      }
    })()
    await going.finally(() => {
      going = null
    })
  }

  // ----- The list
  const rows = () => [...document.querySelectorAll('.mail')]
  const linkOf = row => row.querySelector('a')

  function select (row) {
    if (row === undefined) return
    linkOf(row).focus({ preventScroll: true })
    row.scrollIntoView({ block: 'nearest' })
    if (!isWide() || $('selected') === null) return
    for (const one of rows()) one.toggleAttribute('data-selected', one === row)
    const to = url()
    to.searchParams.set('email', row.id)
    for (const name of ['images', 'part']) to.searchParams.delete(name)
    void go(to)
  }

  addEventListener('click', event => {
    const link = event.target.closest('#activity a')
    if (link === null || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
    const row = link.closest('.mail')
    // Enter opens the email itself.
    if (row !== null && event.detail > 0 && isWide() && $('selected') !== null) {
      event.preventDefault()
      return select(row)
    }
    if (link.closest('.preview-bar, .blocked, .steps-of-time, .past') === null) return
    event.preventDefault()
    void go(new URL(link.href))
  })

  addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select, dialog')) {
      return
    }
    if (event.key !== 'j' && event.key !== 'k') return
    const all = rows()
    const focused = all.findIndex(row => row.contains(document.activeElement))
    const at = focused >= 0 ? focused : all.findIndex(row => row.hasAttribute('data-selected'))
    event.preventDefault()
    select(all[focused < 0 && at < 0 ? 0 : at + (event.key === 'j' ? 1 : -1)])
  })

  // ----- New rows: nothing moves under the pointer, or above what somebody has scrolled to.
  let isOver = false
  addEventListener('pointermove', ({ target, pointerType }) => {
    isOver = pointerType === 'mouse' && target.closest?.('#rows') != null
  }, { passive: true })
  let isAsked = false
  addEventListener('htmx:beforeSwap', ({ detail }) => {
    if (detail.target.id !== 'activity' || going !== null || isAsked || !detail.shouldSwap) return
    const pane = $('rows')
    if (!isOver && (pane === null || (pane.scrollTop === 0 && scrollY < 200))) return
    const answer = new DOMParser().parseFromString(detail.serverResponse, 'text/html')
    const known = new Set(rows().map(({ id }) => id))
    const fresh = [...answer.querySelectorAll('.mail')].filter(({ id }) => !known.has(id))
    if (fresh.length === 0 || known.size === 0) return
    for (const row of fresh) row.remove()
    const button = answer.querySelector('.fresh')
    button.hidden = false
    button.textContent = `${fresh.length} new`
    detail.serverResponse = answer.documentElement.outerHTML
  })
  // Those that do come are highlighted for a moment.
  let listed = new Set(rows().map(({ id }) => id))
  document.body.addEventListener('htmx:afterSettle', () => {
    for (const row of rows()) row.classList.toggle('new', going === null && !listed.has(row.id))
    listed = new Set(rows().map(({ id }) => id))
  })
  addEventListener('click', async event => {
    if (event.target.closest('.fresh') === null) return
    isAsked = true
    await go(url())
    isAsked = false
    $('rows').scrollTop = 0
  })

  // ----- The time track
  let track = null
  let range = null
  let playing = null
  let hovered = null

  /** Reads what the page says, and keeps what the visitor has chosen. */
  function read () {
    const section = $('track')
    if (section === null) {
      track = null
      return
    }
    if (track?.text !== section.dataset.track) {
      const data = JSON.parse(section.dataset.track)
      const dots = data.dots.map(([at, kind, row]) => ({
        at: data.from + at,
        kind: data.kinds[kind],
        row: data.rows[row]
      }))
      track = { ...data, text: section.dataset.track, dots, times: [...new Set(dots.map(({ at }) => at))] }
    }
    draw()
  }

  const share = ms => (track.to === track.from ? 0 : (ms - track.from) / (track.to - track.from))
  const timeAt = x => {
    const box = $('track-dots').getBoundingClientRect()
    return track.from + Math.min(1, Math.max(0, (x - box.left) / box.width)) * (track.to - track.from)
  }
  const place = () => (track.at === null ? track.times.length : track.times.filter(ms => ms <= track.at).length)
  const clock = ms =>
    new Date(ms).toLocaleString(undefined, {
      month: 'short',
      day: 'numeric',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit'
    })

  function shape (name, marks, parent) {
    const element = document.createElementNS(SVG, name)
    for (const [mark, value] of Object.entries(marks)) element.setAttribute(mark, value)
    parent.append(element)
    return element
  }

  function draw () {
    const box = $('track-dots')
    const svg = document.createElementNS(SVG, 'svg')
    svg.setAttribute('aria-hidden', 'true')
    for (const y of [14, 32, 50]) shape('line', { x1: '0', x2: '100%', y1: y, y2: y, class: 'level' }, svg)
    if (range !== null) {
      const [from, to] = [share(range[0]), share(range[1])]
      const marks = {
        x: `${from * 100}%`,
        width: `${Math.max(0, to - from) * 100}%`,
        y: 0,
        height: 64,
        class: 'chosen'
      }
      shape('rect', marks, svg)
    }
    const end = track.at ?? Infinity
    for (const dot of track.dots) {
      const [level, tone] = dot.kind
      const marks = { cx: `${share(dot.at) * 100}%`, cy: 14 + level * 18, r: 4 }
      shape('circle', { ...marks, class: `${tone} ${dot.at > end ? 'later' : ''}` }, svg)
    }
    const at = `${(track.at === null ? 1 : share(track.at)) * 100}%`
    shape('line', { x1: at, x2: at, y1: 0, y2: 64, class: 'head' }, svg)
    shape('circle', { cx: at, cy: 4, r: 5, class: 'head' }, svg)
    box.replaceChildren(svg)
    const line = $('track-line')
    const text = track.at === null ? 'now' : clock(track.at)
    line.setAttribute('aria-valuemax', track.times.length)
    line.setAttribute('aria-valuenow', place())
    line.setAttribute('aria-valuetext', text)
    $('track-at').textContent = text
    showRange()
  }

  /** To a time; at or after the last event it is now. */
  let timer = null
  function scrub (ms) {
    track.at = ms === null || ms >= track.to ? null : Math.round(ms)
    draw()
    clearTimeout(timer)
    timer = setTimeout(() => {
      const to = url()
      if (track.at === null) to.searchParams.delete('as_of')
      else to.searchParams.set('as_of', new Date(track.at).toISOString())
      void go(to)
    }, SCRUB_MS)
  }

  /** To the event at that place, from 1; beyond the last one it is now. */
  const step = to => scrub(to > track.times.length ? null : track.times[Math.max(1, to) - 1])

  function play () {
    if (playing !== null) return stop()
    if (track.at === null) step(1)
    playing = setInterval(() => {
      if (going !== null || next !== null) return
      if (place() >= track.times.length) stop()
      else step(place() + 1)
    }, PLAY_MS)
    $('track').toggleAttribute('data-playing', true)
  }

  function stop () {
    clearInterval(playing)
    playing = null
    $('track')?.removeAttribute('data-playing')
  }

  function showRange () {
    const form = $('range')
    form.hidden = range === null
    if (range === null) return
    const [from, to] = range
    const counts = new Map()
    for (const { at, kind } of track.dots) {
      if (at >= from && at <= to) counts.set(kind[2], (counts.get(kind[2]) ?? 0) + 1)
    }
    const sum = [...counts.values()].reduce((all, one) => all + one, 0)
    const types = [...counts].map(([name, count]) => `${count} ${name.toLowerCase()}`).join(' · ')
    form.querySelector('[role=status]').textContent = `${sum} events${types === '' ? '' : `: ${types}`}`
    form.elements.from.value = new Date(Math.floor(from)).toISOString()
    form.elements.to.value = new Date(Math.ceil(to) + 1).toISOString()
  }

  function label (x, y) {
    const box = $('track-dots').getBoundingClientRect()
    const far = ({ at, kind }) => Math.hypot(box.left + share(at) * box.width - x, box.top + 14 + kind[0] * 18 - y)
    const near = track.dots.reduce((best, dot) => (best === null || far(dot) <= far(best) ? dot : best), null)
    hovered?.remove()
    hovered = null
    if (near === null || far(near) > NEAR_PX) return
    const [who = '', subject = ''] = near.row ?? []
    hovered = Object.assign(document.createElement('div'), { className: 'bubble' })
    hovered.append(
      Object.assign(document.createElement('strong'), { textContent: near.kind[2] }),
      ` ${who} · ${subject} · ${clock(near.at)}`
    )
    hovered.style.left = `${Math.min(innerWidth - 320, Math.max(8, x - 40))}px`
    hovered.style.top = `${box.top - 44}px`
    document.body.append(hovered)
  }

  let pressed = null
  addEventListener('pointerdown', event => {
    if (event.button !== 0 || track === null || event.target.closest('#track-line') === null) return
    stop()
    const box = $('track-dots').getBoundingClientRect()
    const head = box.left + (track.at === null ? 1 : share(track.at)) * box.width
    pressed = { x: event.clientX, isHead: Math.abs(head - event.clientX) <= 8, isDrag: false }
    $('track-line').setPointerCapture(event.pointerId)
    $('track-line').focus({ preventScroll: true })
    event.preventDefault()
  })
  addEventListener('pointermove', event => {
    if (track === null) return
    if (pressed === null) {
      if (event.target.closest?.('#track-line') != null) label(event.clientX, event.clientY)
      else if (hovered !== null) {
        hovered.remove()
        hovered = null
      }
      return
    }
    pressed.isDrag ||= Math.abs(event.clientX - pressed.x) >= DRAG_PX
    if (!pressed.isDrag) return
    if (pressed.isHead) return scrub(timeAt(event.clientX))
    range = [timeAt(pressed.x), timeAt(event.clientX)].sort((a, b) => a - b)
    draw()
  })
  addEventListener('pointerup', event => {
    if (pressed !== null && !pressed.isDrag && !pressed.isHead) scrub(timeAt(event.clientX))
    pressed = null
  })

  const KEYS = {
    ArrowLeft: () => step(place() - 1),
    ArrowRight: () => step(place() + 1),
    Home: () => step(1),
    End: () => scrub(null),
    ' ': play,
    Escape: () => {
      range = null
      scrub(null)
    }
  }
  addEventListener('keydown', event => {
    if (track === null || event.target.id !== 'track-line') return
    const act = KEYS[event.key]
    if (act === undefined) return
    event.preventDefault()
    if (event.shiftKey && event.key.startsWith('Arrow')) {
      // The range grows from where the track stands.
      const to = Math.min(track.times.length, Math.max(1, place() + (event.key === 'ArrowLeft' ? -1 : 1)))
      const anchor = range?.anchor ?? track.at ?? track.to
      const moved = track.times[to - 1]
      range = Object.assign([anchor, moved].sort((a, b) => a - b), { anchor })
    }
    if (event.key !== ' ') stop()
    act()
  })
  addEventListener('click', event => {
    if (track === null) return
    if (event.target.closest('[data-play]') !== null) play()
    if (event.target.closest('[data-clear]') === null) return
    range = null
    draw()
    $('track-line').focus()
  })
  addEventListener('submit', event => {
    if (event.target.id === 'range') event.target.action = $('range-endpoint').value
  }, true)
  addEventListener('resize', () => track !== null && draw())

  /** While it is being moved the visitor's hand is ahead of the page. */
  function catchUp () {
    if (pressed === null && next === null) read()
  }

  read()
  document.body.addEventListener('htmx:afterSettle', catchUp)
})()
