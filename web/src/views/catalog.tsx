/** All tools of the registry, read in parts while one scrolls. */

import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, Problem, registryPath, type Tool } from '../api'
import type { ViewProperties } from '../app'
import { Badge, Empty, Failure, Select, TextField } from '../parts/elements'
import { Table } from '../parts/table'
import { linkTo } from '../route'
import { format, t } from '../texts'

const PART = 500
const TYPING_MS = 200
const TONES: Record<string, 'plain' | 'good' | 'warning' | 'bad'> = {
  active: 'good', approved: 'good', deprecated: 'warning', pending: 'warning', changed: 'warning', retired: 'bad', draft: 'plain',
}

interface Filters {
  text: string
  status: string
  review: string
  flagged: boolean
}

export function StatusBadges({ tool }: { tool: Tool }) {
  return (
    <span class="row badges">
      <Badge tone={TONES[tool.status] ?? 'plain'}>{tool.status}</Badge>
      {tool.review !== 'approved' && <Badge tone={TONES[tool.review] ?? 'plain'}>{tool.review}</Badge>}
      {tool.flags.length > 0 && <Badge tone="warning">{tool.flags.length} ⚑</Badge>}
      {Boolean(tool.damage) && <Badge tone="bad">{t.catalog.damaged}</Badge>}
    </span>
  )
}

export function Catalog({ org }: ViewProperties) {
  const [filters, setFilters] = useState<Filters>({ text: '', status: '', review: '', flagged: false })
  const { tools, hasMore, problem, readMore, reload } = useTools(filters, org)
  const texts = t.catalog
  const isFiltered = Boolean(filters.text || filters.status || filters.review || filters.flagged)
  return (
    <>
      <div class="title"><div><h1>{texts.title}</h1>{tools && <p role="status">{texts.loaded(tools.length, hasMore)}</p>}</div></div>
      <div class="row" role="search">
        <TextField label={texts.search} class="wide" type="search" value={filters.text} onInput={(text) => setFilters({ ...filters, text })} />
        <Select label={texts.status} value={filters.status} onInput={(status) => setFilters({ ...filters, status })} options={[['', texts.any], ...texts.statuses]} />
        <Select label={texts.review} value={filters.review} onInput={(review) => setFilters({ ...filters, review })} options={[['', texts.any], ...texts.reviews]} />
        <label class="check">
          <input type="checkbox" checked={filters.flagged} onChange={(event) => setFilters({ ...filters, flagged: event.currentTarget.checked })} />
          {texts.flagged}
        </label>
      </div>
      {problem && <Failure problem={problem} onRetry={reload} />}
      {!tools && !problem && <p role="status">{t.loading}</p>}
      {tools?.length === 0 && !isFiltered && (
        <div class="card"><Empty title={texts.empty}><p>{texts.emptyHint}</p><pre>{texts.emptyCommand}</pre></Empty></div>
      )}
      {tools?.length === 0 && isFiltered && <div class="card"><Empty title={texts.nothingFound} /></div>}
      {tools && tools.length > 0 && (
        <Table
          label={texts.tools} rows={tools} rowKey={(tool) => tool.tool_id} hasMore={hasMore} onEnd={readMore}
          columns={[
            { key: 'name', title: texts.name, width: '2fr', cell: (tool) => <a class="name" href={linkTo('catalog', tool.name)}>{tool.name}</a> },
            { key: 'description', title: texts.description, width: '4fr', isExtra: true, cell: (tool) => <span class="one-line">{tool.description}</span> },
            { key: 'toolkit', title: texts.toolkit, width: '1.8fr', isExtra: true, cell: (tool) => <span class="one-line" title={tool.toolkit}>{tool.toolkit}</span> },
            { key: 'status', title: texts.status, width: '1.4fr', cell: (tool) => <StatusBadges tool={tool} /> },
            { key: 'changed', title: texts.changed, width: '6.5rem', isExtra: true, cell: (tool) => <small class="one-line">{format.time(tool.updated_at)}</small> },
          ]}
        />
      )}
    </>
  )
}

interface Part {
  tools: Tool[]
  next: string
}

function useTools(filters: Filters, org: string | undefined) {
  const [tools, setTools] = useState<Tool[]>()
  const [next, setNext] = useState('')
  const [problem, setProblem] = useState<Problem>()
  const [round, setRound] = useState(0)
  const reading = useRef<AbortController | undefined>(undefined)

  const read = async (after: string, before: Tool[]) => {
    reading.current?.abort()
    const stop = (reading.current = new AbortController())
    try {
      const path = registryPath('/tools', { ...filters, org, after, limit: PART })
      const { value } = await ask<Part>('GET', path, { signal: stop.signal })
      setTools([...before, ...value.tools])
      setNext(value.next)
      setProblem(undefined)
    } catch (error) {
      if (stop.signal.aborted) return
      setProblem(error as Problem)
      if ((error as Problem).status === 401) window.dispatchEvent(new Event('signed-out'))
    } finally {
      if (reading.current === stop) reading.current = undefined
    }
  }
  useEffect(() => {
    const timer = window.setTimeout(() => void read('', []), round || filters.text ? TYPING_MS : 0)
    return () => window.clearTimeout(timer)
  }, [filters.text, filters.status, filters.review, filters.flagged, org, round])
  const readMore = () => { if (next && !reading.current) void read(next, tools ?? []) }
  return { tools, hasMore: next !== '', problem, readMore, reload: () => setRound((n) => n + 1) }
}
