/** A selection: its tools with reasons and scores, and the stages that decided. */

import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Trial, TrialTool } from '../api'
import { Badge, Empty, Name, Notice, ToolLink } from '../parts/elements'
import { useIsPhone } from '../parts/media'
import { StageTable } from '../parts/stages'
import { Table } from '../parts/table'
import { format, t } from '../texts'

type Shown = 'selected' | 'leftOut' | 'all'

interface Properties {
  profile: string
  /** Above it; else the profile. */
  title?: string
  names: string[]
  tools: TrialTool[]
  stages: Trial['stages']
  /** Of the message; unknown for a past selection. */
  confidence?: number
  hasMatch?: boolean
  degraded?: string[]
  /** Names in the other selection. */
  others?: string[]
}

export function Result({ profile, title = profile, names, tools, stages, confidence, hasMatch = true, degraded = [], others }: Properties) {
  const texts = t.playground
  const [shown, setShown] = useState<Shown>('selected')
  const [part, setPart] = useState('')
  const isPhone = useIsPhone()
  const counts = { selected: names.length, leftOut: tools.length - names.length, all: tools.length }
  const rows = tools.filter(
    (tool) => (shown === 'all' || tool.selected === (shown === 'selected')) && tool.name.toLowerCase().includes(part.toLowerCase()),
  )
  const best = Math.max(...tools.map((tool) => tool.score), Number.EPSILON)
  const elsewhere = others && new Set(others)
  return (
    <section class="card" aria-label={texts.results(title)}>
      <div class="row spread center">
        <h2>{title}</h2>
        <small role="status">{texts.summary(counts.selected, counts.all, confidence === undefined ? '' : format.share(confidence))}</small>
      </div>
      {!hasMatch && <Notice tone="warning">{texts.noMatch}</Notice>}
      {degraded.length > 0 && <Notice tone="warning">{texts.degraded(degraded.join(', '))}</Notice>}
      <div class="row spread center">
        <div class="choices" role="group" aria-label={texts.show}>
          {(['selected', 'leftOut', 'all'] as const).map((each) => (
            <button key={each} type="button" aria-pressed={each === shown} onClick={() => setShown(each)}>
              {texts[each]} {format.count(counts[each])}
            </button>
          ))}
        </div>
        <input class="filter" type="search" aria-label={texts.filter} placeholder={texts.filter} value={part} onInput={(event) => setPart(event.currentTarget.value)} />
      </div>
      {rows.length === 0 ? <Empty title={texts.noTools} /> : (
        <Table
          label={texts[shown]} rows={rows} rowKey={(tool) => tool.name}
          columns={[
            { key: 'name', title: isPhone ? texts.toolAndWhy : texts.tool, width: '3fr', cell: (tool) => <ToolName tool={tool} isOnlyHere={tool.selected && !!elsewhere && !elsewhere.has(tool.name)}>{isPhone && <Reasons reasons={tool.reasons} />}</ToolName> },
            { key: 'why', title: texts.why, width: '2fr', isExtra: true, cell: (tool) => <Reasons reasons={tool.reasons} /> },
            { key: 'score', title: texts.score, width: 'clamp(3.25rem, 12vw, 7rem)', isNumber: true, cell: (tool) => <Score score={tool.score} best={best} /> },
          ]}
        />
      )}
      <details>
        <summary>{texts.stages}</summary>
        <StageTable tools={tools} stages={stages} />
      </details>
    </section>
  )
}

const Reasons = ({ reasons }: { reasons: string[] }) => <ul class="reasons">{reasons.map((reason) => <li key={reason}>{reason}</li>)}</ul>

/** children: shown below it. */
function ToolName({ tool, isOnlyHere, children }: { tool: TrialTool; isOnlyHere: boolean; children: ComponentChildren }) {
  return (
    <span class="stack">
      <span><ToolLink name={tool.name} /> {isOnlyHere && <Badge tone="warning">{t.playground.onlyHere}</Badge>}</span>
      {tool.toolkit && <small><Name>{tool.toolkit}</Name></small>}
      {children}
    </span>
  )
}

function Score({ score, best }: { score: number; best: number }) {
  return (
    <span class="score">
      <span class="track" aria-hidden="true"><span class="fill" style={{ width: `${Math.max(0, (100 * score) / best)}%` }} /></span>
      <span>{score ? format.score(score) : format.count(null)}</span>
    </span>
  )
}
