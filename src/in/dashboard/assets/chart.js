// Draws figures with data-chart (see chart in charts.ts) by uPlot. The table under each says the same to whoever does not see it.
(() => {
  'use strict'
  const HEIGHT = 240
  const drawn = new Map()

  function colour (name) {
    // The browser turns light-dark() into the colour that holds now.
    const probe = document.createElement('span')
    probe.style.color = `var(${name})`
    document.body.append(probe)
    const { color } = getComputedStyle(probe)
    probe.remove()
    return color
  }

  function draw (figure) {
    drawn.get(figure)?.destroy()
    const { times, series } = JSON.parse(figure.dataset.chart)
    const [line, soft] = [colour('--line'), colour('--soft')]
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } }
    const canvas = figure.querySelector('.canvas')
    canvas.replaceChildren()
    drawn.set(figure, new uPlot({
      width: canvas.clientWidth,
      height: HEIGHT,
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.1)] } },
      axes: [axis, { ...axis, size: 60, values: (_plot, ticks) => ticks.map(tick => (Number.isInteger(tick) ? tick.toLocaleString('en-GB') : '')) }],
      series: [{}, ...series.map(({ label, tone }) => ({ label, stroke: colour(tone), width: 2, points: { show: times.length < 3 } }))]
    }, [times, ...series.map(({ values }) => values)], canvas))
  }

  const drawAll = () => document.querySelectorAll('figure[data-chart]').forEach(draw)
  drawAll()
  addEventListener('resize', drawAll)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll)
  document.body.addEventListener('htmx:afterSettle', drawAll)
})()
