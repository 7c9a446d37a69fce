/** What each stage did with each tool: a row for a tool, a column for a stage, a score where the tool stayed. */

import { useState } from 'preact/hooks'
import type { Trial, TrialTool } from '../api'
import { format, t } from '../texts'
import { ToolLink } from './elements'
import { Scroller } from './scroller'

const FIRST = 15 // tools without a click

export function StageTable({ tools, stages }: { tools: TrialTool[]; stages: Trial['stages'] }) {
  const [isWhole, setIsWhole] = useState(false)
  const texts = t.playground
  const told = [...tools].sort((a, b) => reach(b) - reach(a) || b.score - a.score)
  const shown = isWhole ? told : told.slice(0, FIRST)
  const best = Math.max(...tools.map((tool) => tool.score), Number.EPSILON)
  return (
    <div class="stack">
      <small>{texts.stagesHint}</small>
      <Scroller label={texts.stages} class="tall">
        <table class="stages">
          <thead>
            <tr>
              <th scope="col">{texts.tool}</th>
              {stages.map((step, place) => (
                <th key={place} scope="col" title={step.reason}>
                  {texts.stageNames[step.reason] ?? step.reason}
                  <small>{texts.effects[step.verb] ?? step.verb}</small>
                  <small>{texts.inPlay(step.in_play)}</small>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((tool) => (
              <tr key={tool.name} class={tool.selected ? undefined : 'off'}>
                <th scope="row"><ToolLink name={tool.name} /></th>
                {stages.map((_, place) => <Cell key={place} scores={tool.scores} place={place} best={best} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
      {told.length > FIRST && <div><button type="button" class="quiet" aria-expanded={isWhole} onClick={() => setIsWhole(!isWhole)}>{isWhole ? t.analytics.fewer : t.analytics.more(told.length - FIRST)}</button></div>}
    </div>
  )
}

/** The number of stages after which the tool was still in play. */
const reach = (tool: TrialTool) => tool.scores.findLastIndex((score) => score !== null)

function Cell({ scores, place, best }: { scores: (number | null)[]; place: number; best: number }) {
  const texts = t.playground
  const [before, now] = [place > 0 ? scores[place - 1] : 0, scores[place]]
  if (now == null && before != null) return <td class="dropped">{texts.dropped}</td>
  if (now == null) return <td class="gone"><span class="hidden">{texts.notInPlay}</span></td>
  const share = Math.round((55 * Math.max(0, now)) / best)
  return (
    <td class="kept" style={{ background: `color-mix(in oklab, var(--heat) ${share}%, var(--card))` }}>
      {now ? format.score(now) : <small>{before === null ? texts.cameBack : texts.kept}</small>}
    </td>
  )
}
