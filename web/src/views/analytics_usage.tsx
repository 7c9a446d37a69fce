/** Tools by page, unused tools, and tools without vectors. */

import { useState } from 'preact/hooks'
import type { Drift, Heatmap, Unused } from '../api'
import { Empty, ToolLink } from '../parts/elements'
import { Scroller } from '../parts/scroller'
import { format, t } from '../texts'

const FIRST = 12 // tools of the heatmap without a click
const STRONGEST = 65 // per cent of the accent colour behind the highest count: text stays readable on it

export function Heat({ heatmap, of, onChoose }: { heatmap: Heatmap; of: string; onChoose: (of: string) => void }) {
  const [isWhole, setIsWhole] = useState(false)
  const texts = t.analytics
  const { tools, pages, counts } = heatmap
  const most = Math.max(...counts.flat(), 1)
  return (
    <section class="card">
      <div class="row spread center">
        <div><h2>{texts.heatmap}</h2>{heatmap.left_out > 0 && <small>{texts.leftOut(format.count(heatmap.left_out))}</small>}</div>
        <div class="choices" role="group" aria-label={texts.counted}>
          {Object.entries(texts.counts).map(([value, text]) => (
            <button key={value} type="button" aria-pressed={value === of} onClick={() => onChoose(value)}>{text}</button>
          ))}
        </div>
      </div>
      {tools.length === 0 ? <Empty title={texts.noCounts} /> : (
      <Scroller label={texts.heatmap}>
        <table class="heat">
          <thead>
            <tr><th scope="col">{t.playground.tool}</th>{pages.map((page) => <th key={page} scope="col" class="number">{page || texts.noPage}</th>)}</tr>
          </thead>
          <tbody>
            {(isWhole ? tools : tools.slice(0, FIRST)).map((tool, place) => (
              <tr key={tool}>
                <th scope="row"><ToolLink name={tool} /></th>
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
      </Scroller>
      )}
      {tools.length > FIRST && <div><button type="button" class="quiet" aria-expanded={isWhole} onClick={() => setIsWhole(!isWhole)}>{isWhole ? texts.fewer : texts.more(tools.length - FIRST)}</button></div>}
    </section>
  )
}

export function UnusedCard({ unused }: { unused: Unused }) {
  const texts = t.analytics
  const { never_selected: unseen, never_called: ignored } = unused
  return (
    <section class="card">
      <div><h2>{texts.unused}</h2><small>{texts.unusedHint(format.count(unused.tools), format.count(unused.events))}</small></div>
      {unseen.length + ignored.length === 0 && <p>{texts.noUnused}</p>}
      {ignored.length > 0 && (
        <details open>
          <summary>{texts.neverCalled(ignored.length)}</summary>
          <ul class="names">{ignored.map(({ org, name, shown }) => <li key={`${org}/${name}`}><ToolLink name={name} /> <small>{texts.shown(shown)}</small></li>)}</ul>
        </details>
      )}
      {unseen.length > 0 && (
        <details>
          <summary>{texts.neverSelected(unseen.length)}</summary>
          <ul class="names">{unseen.map(({ org, name }) => <li key={`${org}/${name}`}><ToolLink name={name} /></li>)}</ul>
        </details>
      )}
    </section>
  )
}

export function DriftCard({ drift }: { drift: Drift }) {
  const texts = t.analytics
  return (
    <section class="card">
      <div><h2>{texts.drift}</h2><small>{drift.embedder}</small></div>
      {drift.tools.length === 0 && <p>{texts.noDrift(format.count(drift.checked))}</p>}
      {drift.tools.length > 0 && (
        <>
          <p>{texts.drifting(format.count(drift.tools.length), format.count(drift.checked))}</p>
          <ul>{drift.tools.map((tool) => <li key={tool.name}><ToolLink name={tool.name} /></li>)}</ul>
        </>
      )}
    </section>
  )
}
