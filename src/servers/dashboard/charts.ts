import { html, type Html } from '#src/base/html.ts'
import { number, table } from './parts.ts'
import type { AssetName } from './assets.ts'

/** What a page with charts loads. */
export const CHART_ASSETS: AssetName[] = ['uplot.css', 'uplot.js', 'chart.js']

export interface Series {
  label: string
  /** A colour of style.css. */
  tone: '--good' | '--bad' | '--warn' | '--busy'
  values: number[]
}

interface Chart {
  /** Of its elements. */
  id: string
  title: string
  /** Where each point begins, in Unix seconds and in words. The last one is not complete, and shaded. */
  times: number[]
  labels: string[]
  /** What a point counts, in a sentence. */
  note: string
  /** Differ by their dashes as well as by colour. */
  series: Series[]
}

/** Lines over time, drawn by chart.js; the table has the same figures for screen readers and without scripts. */
export function chart ({ id, title, times, labels, note, series }: Chart): Html {
  const rows = labels.map((label, i) => ({ label, figures: series.map(({ values }) => values[i]!) }))
  return html`<figure class="chart" id="${id}" data-chart="${JSON.stringify({ times, labels, series })}">
<figcaption><h2>${title}</h2></figcaption>
<div class="canvas" id="${id}-canvas" data-own aria-hidden="true"></div>
<p class="hint">${note}</p><details id="${id}-table"><summary>Show as a table</summary>${
    table(title, [
      { name: 'From', cell: ({ label }) => label },
      ...series.map(({ label }, i) => ({
        name: label,
        kind: 'num' as const,
        cell: ({ figures }: typeof rows[number]) => number(figures[i]!)
      }))
    ], rows)
  }</details></figure>`
}
