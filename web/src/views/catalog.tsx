/** All tools of the registry, read in parts while one scrolls. */

import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useActing } from '../acting'
import { ask, type Drift, namesOf, Problem, registryPath, told, type Tool, type Toolkit, type ToolPage } from '../api'
import { isPassing, RETRY_MS, useLoaded } from '../loading'
import { visible } from '../parts/difference'
import { Badge, Empty, Failure, Notice, Select, TextField, ToolLink } from '../parts/elements'
import { Table } from '../parts/table'
import { format, t } from '../texts'
import type { ViewProperties } from './properties'

const PART = 200
const TYPING_MS = 200
const TONES: Record<string, 'plain' | 'good' | 'warning' | 'bad'> = {
  active: 'good', approved: 'good', deprecated: 'warning', pending: 'warning', changed: 'warning', retired: 'bad', draft: 'plain',
}

interface Filters {
  text: string
  status: string
  review: string
  category: string
  flagged: boolean
}

const NO_FILTERS: Filters = { text: '', status: '', review: '', category: '', flagged: false }

export function StatusBadges({ tool, drift }: { tool: Tool; drift?: string | undefined }) {
  return (
    <span class="row badges">
      <Badge tone={TONES[tool.status] ?? 'plain'}>{tool.status}</Badge>
      {tool.review !== 'approved' && <Badge tone={TONES[tool.review] ?? 'plain'}>{tool.review}</Badge>}
      {tool.flags.length > 0 && <Badge tone="warning">{t.catalog.toReview(tool.flags.length)}</Badge>}
      {drift && <Badge tone="warning">{t.catalog.drifts[drift] ?? drift}</Badge>}
    </span>
  )
}

export function Catalog({ session, org, mayEdit }: ViewProperties) {
  const owner = session.org ?? org ?? ''
  const [filters, setFilters] = useState<Filters>(NO_FILTERS)
  const [platform, setPlatform] = useState(false) // instead of the organisation's own tools
  const { tools, total, hasMore, problem, readMore, reload } = useTools(filters, platform, org)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const texts = t.catalog
  const picked = (tools ?? []).filter((tool) => chosen.has(tool.tool_id))
  const toggle = (id: string, isOn: boolean) => setChosen(new Set(isOn ? [...chosen, id] : [...chosen].filter((each) => each !== id)))
  const isFiltered = Boolean(filters.text || filters.status || filters.review || filters.category || filters.flagged)
  const drifting = useDrift(org)
  const toolkits = useLoaded((signal) => ask<{ categories: Toolkit[] }>('GET', registryPath('/categories', { org }), { signal }), [org])
  const change = (isPlatform: boolean) => { setChosen(new Set()); setFilters({ ...NO_FILTERS, text: filters.text }); setPlatform(isPlatform) }
  const mayChange = mayEdit && !platform
  return (
    <>
      <div class="title">
        <div><h1>{texts.title}</h1>{tools && total !== null && <p role="status">{texts.total(total)}{platform && <> · {texts.ofPlatformHint}</>}</p>}</div>
        {owner && (
          <div class="choices" role="group" aria-label={texts.whose}>
            {[false, true].map((value) => <button key={String(value)} type="button" aria-pressed={value === platform} onClick={() => change(value)}>{value ? texts.ofThePlatform : texts.ownTools}</button>)}
          </div>
        )}
      </div>
      <div class="row" role="search">
        <TextField label={texts.search} class="wide" type="search" value={filters.text} onInput={(text) => setFilters({ ...filters, text })} />
        <Select label={texts.status} value={filters.status} onInput={(status) => setFilters({ ...filters, status })} options={[['', texts.any], ...texts.statuses]} />
        {!platform && <Select label={texts.review} value={filters.review} onInput={(review) => setFilters({ ...filters, review })} options={[['', texts.any], ...texts.reviews]} />}
        {!platform && <Select label={texts.toolkit} value={filters.category} onInput={(category) => setFilters({ ...filters, category })} options={[['', texts.any], ...namesOf(toolkits.value?.value.categories ?? [])]} />}
        {!platform && <label class="check">
          <input type="checkbox" checked={filters.flagged} onChange={(event) => setFilters({ ...filters, flagged: event.currentTarget.checked })} />
          {texts.flagged}
        </label>}
      </div>
      {mayChange && <StatusChange picked={picked} onDone={() => { setChosen(new Set()); reload() }} />}
      {problem && <Failure problem={problem} onRetry={reload} />}
      {!tools && !problem && <p role="status">{t.loading}</p>}
      {tools?.length === 0 && !isFiltered && !platform && (
        <div class="card"><Empty title={texts.empty(owner)}><p>{texts.emptyHint(owner)}</p><pre>{texts.emptyCommand(owner)}</pre>{owner && <button type="button" class="quiet" onClick={() => change(true)}>{texts.seePlatform}</button>}</Empty></div>
      )}
      {tools?.length === 0 && !isFiltered && platform && <div class="card"><Empty title={texts.noneOfPlatform(owner)} /></div>}
      {tools?.length === 0 && isFiltered && <div class="card"><Empty title={texts.nothingFound} /></div>}
      {tools && tools.length > 0 && (
        <Table
          label={texts.tools} rows={tools} rowKey={(tool) => tool.tool_id} total={total} hasMore={hasMore} onEnd={readMore}
          columns={[
            ...(mayChange ? [{
              key: 'choose', width: '1rem',
              title: <input type="checkbox" aria-label={texts.chooseAll} checked={picked.length === tools.length} onChange={(event) => setChosen(new Set(event.currentTarget.checked ? tools.map((tool) => tool.tool_id) : []))} />,
              cell: (tool: Tool) => <input type="checkbox" aria-label={t.approval.choose(tool.name)} checked={chosen.has(tool.tool_id)} onChange={(event) => toggle(tool.tool_id, event.currentTarget.checked)} />,
            }] : []),
            { key: 'name', title: texts.name, width: '2fr', cell: (tool) => <ToolLink name={tool.name} /> },
            { key: 'description', title: texts.description, width: '4fr', isExtra: true, cell: (tool) => <span class="one-line">{visible(tool.description)}</span> },
            { key: 'toolkit', title: texts.toolkit, width: '1.8fr', isExtra: true, cell: (tool) => <span class="one-line" title={tool.toolkit}>{tool.toolkit}</span> },
            { key: 'status', title: texts.status, width: '1.4fr', cell: (tool) => <StatusBadges tool={tool} drift={drifting.get(`${tool.org}/${tool.name}`)} /> },
            ...(platform ? [] : [{ key: 'changed', title: texts.changed, width: '6.5rem', isExtra: true, cell: (tool: Tool) => <small class="one-line">{format.time(tool.updated_at)}</small> }]),
          ]}
        />
      )}
    </>
  )
}

/** Organisation and name of tools without vectors of the service's embedder → the missing vectors. */
export function useDrift(org: string | undefined): ReadonlyMap<string, string> {
  const drift = useLoaded((signal) => ask<Drift>('GET', registryPath('/analytics/drift', { org }), { signal }), [org])
  return useMemo(() => new Map(drift.value?.value.tools.map((tool) => [`${tool.org}/${tool.name}`, tool.state])), [drift.value])
}

/** Sets one status for the chosen tools, one after the other. Leaves and names tools that have changed meanwhile. */
function StatusChange({ picked, onDone }: { picked: Tool[]; onDone: () => void }) {
  const texts = t.catalog
  const [status, setStatus] = useState(texts.statuses[1]!)
  const [reason, setReason] = useState('')
  const acting = useActing()
  const set = async () => {
    const outdated: string[] = []
    await acting.run(async () => {
      for (const tool of picked) {
        if (tool.status === status) continue
        try {
          const path = registryPath(`/tools/${tool.tool_id}`, { org: tool.org, reason })
          await ask('PUT', path, { body: { status }, etag: `"${tool.version}"` })
        } catch (error) {
          if ((error as Problem).status !== 412) throw error
          outdated.push(tool.name)
        }
      }
      if (outdated.length) throw new Problem(412, texts.outdated(outdated.join(', ')))
    }, texts.statusSet(picked.length, status))
    onDone()
  }
  return (
    <>
      {acting.problem && (acting.problem.status === 412 ? <Notice tone="warning">{acting.problem.message}</Notice> : <Failure problem={acting.problem} />)}
      {acting.done && <Notice tone="good">{acting.done}</Notice>}
      {picked.length > 0 && (
        <form class="row bulk" onSubmit={(event) => { event.preventDefault(); void set() }}>
          <strong role="status">{texts.chosen(picked.length)}</strong>
          <Select label={texts.newStatus} value={status} onInput={setStatus} options={texts.statuses} />
          <TextField label={texts.reason} class="wide" value={reason} onInput={setReason} />
          <button type="submit" disabled={acting.isBusy}>{texts.setStatus}</button>
        </form>
      )}
    </>
  )
}

function useTools(filters: Filters, platform: boolean, org: string | undefined) {
  const [tools, setTools] = useState<Tool[]>()
  const [total, setTotal] = useState<number | null>(null)
  const [next, setNext] = useState('')
  const [problem, setProblem] = useState<Problem>()
  const [round, setRound] = useState(0)
  const reading = useRef<AbortController | undefined>(undefined)

  const read = async (after: string, before: Tool[]) => {
    reading.current?.abort()
    const stop = (reading.current = new AbortController())
    try {
      const path = registryPath('/tools', { ...filters, platform, org, after, limit: PART })
      const { value } = await ask<ToolPage>('GET', path, { signal: stop.signal })
      setTools([...before, ...value.tools.map(told)])
      if (value.total !== null) setTotal(value.total)
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
  }, [filters.text, filters.status, filters.review, filters.category, filters.flagged, platform, org, round])
  useEffect(() => {
    if (!problem || !isPassing(problem)) return
    const timer = window.setTimeout(() => setRound((n) => n + 1), RETRY_MS)
    return () => window.clearTimeout(timer)
  }, [problem])
  const readMore = () => { if (next && !reading.current) void read(next, tools ?? []) }
  return { tools, total, hasMore: next !== '', problem, readMore, reload: () => setRound((n) => n + 1) }
}
