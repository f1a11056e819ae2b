// Draws figures with data-chart (see charts.ts) by uPlot. The table under each has the same figures.
;(() => {
  'use strict'
  const HEIGHT = 220
  const DASHES = [[], [7, 4], [2, 3]]
  const DAY_S = 86_400
  /** Figure → its chart: { text, labels, names, plot }. */
  const drawn = new Map()

  /** Buckets begin in UTC, and so do their labels. */
  const formatOf = options => new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', ...options })
  const [MONTH, DAY, CLOCK] = [
    formatOf({ month: 'short', year: '2-digit' }),
    formatOf({ day: 'numeric', month: 'short' }),
    formatOf({ hour: '2-digit', minute: '2-digit' })
  ]

  function tick (seconds, incrS) {
    const format = incrS >= 27 * DAY_S ? MONTH : seconds % DAY_S === 0 ? DAY : CLOCK
    return format.format(seconds * 1000)
  }

  function colour (name) {
    // The browser resolves light-dark() to the present colour.
    const probe = document.createElement('span')
    probe.style.color = `var(${name})`
    document.body.append(probe)
    const { color } = getComputedStyle(probe)
    probe.remove()
    return color
  }

  const SHORT = new Intl.NumberFormat('en-GB', { notation: 'compact' })
  const count = value => (value === null || value === undefined ? '–' : value.toLocaleString('en-GB'))

  function plotOf ({ times, series }, canvas, labelsOf) {
    const [line, soft, shade] = ['--line', '--soft', '--busy-back'].map(colour)
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } }
    return new uPlot(
      {
        width: canvas.clientWidth,
        height: HEIGHT,
        tzDate: seconds => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
        cursor: { drag: { x: false, y: false } },
        hooks: { drawClear: [plot => shadeEnd(plot, shade)] },
        scales: { y: { range: (_plot, _min, max) => [0, Math.max(4, max * 1.1)] } },
        axes: [
          { ...axis, values: (_plot, ticks, _axis, _space, incrS) => ticks.map(seconds => tick(seconds, incrS)) },
          {
            ...axis,
            size: 50,
            values: (_plot, ticks) => ticks.map(value => (Number.isInteger(value) ? SHORT.format(value) : ''))
          }
        ],
        series: [
          { label: 'From', value: (_plot, _seconds, _series, i) => labelsOf()[i] ?? '–' },
          ...series.map(({ label, tone }, i) => ({
            label,
            stroke: colour(tone),
            width: 2,
            dash: DASHES[i],
            points: { show: times.length < 3 },
            value: (_plot, value) => count(value)
          }))
        ]
      },
      dataOf({ times, series }),
      canvas
    )
  }

  /** The last point is not complete, so every line seems to fall towards it. */
  function shadeEnd ({ ctx, bbox, data: [times], valToPos }, shade) {
    if (times.length < 2) return
    const [left, right] = times.slice(-2).map(seconds => valToPos(seconds, 'x', true))
    ctx.fillStyle = shade
    ctx.fillRect(left, bbox.top, right - left, bbox.height)
  }

  const dataOf = ({ times, series }) => [times, ...series.map(({ values }) => values)]

  function draw (figure) {
    const text = figure.dataset.chart
    const before = drawn.get(figure)
    if (before?.text === text) return
    const data = JSON.parse(text)
    const names = data.series.map(({ label }) => label).join()
    if (before?.names === names) {
      Object.assign(before, { text, labels: data.labels })
      before.plot.setData(dataOf(data))
      return
    }
    before?.plot.destroy()
    const now = { text, names, labels: data.labels, plot: null }
    now.plot = plotOf(data, figure.querySelector('.canvas'), () => now.labels)
    drawn.set(figure, now)
  }

  function drawAll () {
    for (const [figure, { plot }] of drawn) {
      if (figure.isConnected) continue
      plot.destroy()
      drawn.delete(figure)
    }
    document.querySelectorAll('figure[data-chart]').forEach(draw)
  }

  drawAll()
  document.body.addEventListener('htmx:afterSettle', drawAll)
  addEventListener('resize', () => {
    for (const [figure, { plot }] of drawn) {
      plot.setSize({ width: figure.querySelector('.canvas').clientWidth, height: HEIGHT })
    }
  })
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    for (const { plot } of drawn.values()) plot.destroy()
    drawn.clear()
    drawAll()
  })
})()
