/** Which tools are used on which pages, and which lack vectors of the service's embedder. */

import { useState } from 'preact/hooks'
import { ask, type Drift, type Heatmap, registryPath } from '../api'
import type { ViewProperties } from '../app'
import { useLoaded } from '../loading'
import { Empty, Failure } from '../parts/elements'
import { linkTo } from '../route'
import { format, t } from '../texts'

const DAY_MS = 86_400_000
const FIRST = 12 // tools of the heatmap without a click
const STRONGEST = 65 // per cent of the accent colour behind the highest count: text stays readable on it

export function Analytics({ org }: ViewProperties) {
  const [of, setOf] = useState('called')
  const [days, setDays] = useState('30')
  const since = new Date(Date.now() - Number(days) * DAY_MS).toISOString()
  const heatmap = useLoaded((signal) => ask<Heatmap>('GET', registryPath('/analytics/heatmap', { org, of, since }), { signal }), [org, of, days])
  const drift = useLoaded((signal) => ask<Drift>('GET', registryPath('/analytics/drift', { org }), { signal }), [org])
  const texts = t.analytics
  return (
    <>
      <div class="title">
        <h1>{texts.title}</h1>
        <div class="row">
          <div class="choices" role="group" aria-label={texts.counted}>
            {Object.entries(texts.counts).map(([value, text]) => (
              <button key={value} type="button" aria-pressed={value === of} onClick={() => setOf(value)}>{text}</button>
            ))}
          </div>
          <div class="choices" role="group" aria-label={t.overview.period}>
            {Object.entries(t.overview.periods).map(([value, text]) => (
              <button key={value} type="button" aria-pressed={value === days} onClick={() => setDays(value)}>{text}</button>
            ))}
          </div>
        </div>
      </div>
      {heatmap.problem && <Failure problem={heatmap.problem} onRetry={heatmap.reload} />}
      {!heatmap.value && !heatmap.problem && <p role="status">{t.loading}</p>}
      {heatmap.value && <Heat heatmap={heatmap.value.value} />}
      {drift.problem && <Failure problem={drift.problem} onRetry={drift.reload} />}
      {drift.value?.value.stored && <DriftCard drift={drift.value.value} />}
    </>
  )
}

function Heat({ heatmap }: { heatmap: Heatmap }) {
  const [isWhole, setIsWhole] = useState(false)
  const texts = t.analytics
  const { tools, pages, counts } = heatmap
  if (tools.length === 0) return <div class="card"><Empty title={texts.noCounts} /></div>
  const most = Math.max(...counts.flat(), 1)
  return (
    <section class="card">
      <div><h2>{texts.heatmap}</h2>{heatmap.left_out > 0 && <small>{texts.leftOut(format.count(heatmap.left_out))}</small>}</div>
      <div class="scroll" tabIndex={0} role="region" aria-label={texts.heatmap}>
        <table class="heat">
          <thead>
            <tr><th scope="col">{t.playground.tool}</th>{pages.map((page) => <th key={page} scope="col" class="number">{page || texts.noPage}</th>)}</tr>
          </thead>
          <tbody>
            {(isWhole ? tools : tools.slice(0, FIRST)).map((tool, place) => (
              <tr key={tool}>
                <th scope="row"><a class="name" href={linkTo('catalog', tool)}>{tool}</a></th>
                {pages.map((page, column) => {
                  const count = counts[place]![column]!
                  const share = Math.round((STRONGEST * count) / most)
                  return (
                    <td key={page}>
                      <span class="cell" style={{ background: `color-mix(in oklab, var(--heat) ${share}%, var(--card))` }}>{count ? format.count(count) : ''}</span>
                    </td>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {tools.length > FIRST && <div><button type="button" class="quiet" aria-expanded={isWhole} onClick={() => setIsWhole(!isWhole)}>{isWhole ? texts.fewer : texts.more(tools.length - FIRST)}</button></div>}
    </section>
  )
}

function DriftCard({ drift }: { drift: Drift }) {
  const texts = t.analytics
  return (
    <section class="card">
      <div><h2>{texts.drift}</h2><small>{drift.embedder}</small></div>
      {drift.tools.length === 0 && <p>{texts.noDrift(format.count(drift.checked))}</p>}
      {drift.tools.length > 0 && (
        <>
          <p>{texts.drifting(format.count(drift.tools.length), format.count(drift.checked))}</p>
          <ul>{drift.tools.map((tool) => <li key={tool.name}><a class="name" href={linkTo('catalog', tool.name)}>{tool.name}</a></li>)}</ul>
        </>
      )}
    </section>
  )
}
