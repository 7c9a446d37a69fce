/** Changes of tools that wait for approval: the old and the new side, and a decision about one or about many. */

import { useState } from 'preact/hooks'
import { useActing } from '../acting'
import { ask, Problem, registryPath, type Tool, type ToolPage } from '../api'
import { useLoaded } from '../loading'
import { Badge, Empty, Failure, Notice, TextField, ToolLink } from '../parts/elements'
import { Difference } from '../parts/difference'
import { format, t } from '../texts'
import type { ViewProperties } from './properties'

const MOST = 500
type Decision = 'approve' | 'reject'

export function Approval({ org, mayEdit }: ViewProperties) {
  const waiting = useLoaded(async (signal) => {
    const read = (review: string) => ask<ToolPage>('GET', registryPath('/tools', { org, review, limit: MOST }), { signal })
    const lists = await Promise.all([read('pending'), read('changed')])
    return { tools: lists.flatMap(({ value }) => value.tools), total: lists.reduce((sum, { value }) => sum + (value.total ?? 0), 0) }
  }, [org])
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [reason, setReason] = useState('')
  const acting = useActing()
  const texts = t.approval
  const { tools, total = 0 } = waiting.value ?? {}
  const picked = (tools ?? []).filter((tool) => chosen.has(tool.tool_id))
  const toggle = (id: string, isOn: boolean) => setChosen(new Set(isOn ? [...chosen, id] : [...chosen].filter((each) => each !== id)))

  /** Decides one after the other. Leaves and names tools that have changed meanwhile. */
  const decide = async (decision: Decision, of: Tool[]) => {
    const outdated: string[] = []
    await acting.run(async () => {
      for (const tool of of) {
        try {
          await ask('POST', registryPath(`/tools/${tool.tool_id}/${decision}`, { org: tool.org, reason }), { etag: `"${tool.version}"` })
        } catch (error) {
          if (![409, 412].includes((error as Problem).status)) throw error
          outdated.push(tool.name)
        }
      }
      if (outdated.length) throw new Problem(412, texts.outdated(outdated.join(', ')))
    }, texts.decided[decision](of.length))
    setChosen(new Set())
    waiting.reload()
  }
  return (
    <>
      <div class="title"><div><h1>{texts.title}</h1><p>{texts.explanation}{tools && total > tools.length && ` ${texts.firstOf(tools.length, total)}`}</p></div></div>
      {waiting.problem && <Failure problem={waiting.problem} onRetry={waiting.reload} />}
      {acting.problem && (acting.problem.status === 412 ? <Notice tone="warning">{acting.problem.message}</Notice> : <Failure problem={acting.problem} />)}
      {acting.done && <Notice tone="good">{acting.done}</Notice>}
      {!tools && !waiting.problem && <p role="status">{t.loading}</p>}
      {tools?.length === 0 && <div class="card"><Empty title={texts.none}><p>{texts.noneHint}</p></Empty></div>}
      {mayEdit && tools && tools.length > 0 && (
        <div class="row bulk">
          <label class="check">
            <input type="checkbox" checked={picked.length === tools.length} onChange={(event) => setChosen(new Set(event.currentTarget.checked ? tools.map((tool) => tool.tool_id) : []))} />
            {texts.all}
          </label>
          <TextField label={t.catalog.reason} class="wide" value={reason} onInput={setReason} />
          <button type="button" disabled={picked.length === 0 || acting.isBusy} onClick={() => void decide('approve', picked)}>{texts.approveMany(picked.length)}</button>
          <button type="button" class="quiet danger" disabled={picked.length === 0 || acting.isBusy} onClick={() => void decide('reject', picked)}>{texts.rejectMany(picked.length)}</button>
        </div>
      )}
      {tools?.map((tool) => (
        <section key={tool.tool_id} class="card" aria-label={tool.name}>
          <div class="row spread center">
            <div class="row center">
              {mayEdit && <input type="checkbox" aria-label={texts.choose(tool.name)} checked={chosen.has(tool.tool_id)} onChange={(event) => toggle(tool.tool_id, event.currentTarget.checked)} />}
              <h2><ToolLink name={tool.name} /></h2>
              <Badge tone="warning">{tool.review === 'pending' ? texts.isNew : texts.isChanged}</Badge>
              {tool.org && <Badge>{tool.org}</Badge>}
            </div>
            <small>{format.time(tool.updated_at)} {t.catalog.by(tool.updated_by)}{tool.plugin && ` · ${tool.plugin}`}</small>
          </div>
          {tool.flags.length > 0 && <Notice tone="warning"><ul>{tool.flags.map((flag) => <li key={flag.message}>{flag.message}</li>)}</ul></Notice>}
          <Change tool={tool} />
          {mayEdit && (
            <div class="row">
              <button type="button" class="quiet good" disabled={acting.isBusy} aria-label={texts.approveOne(tool.name)} onClick={() => void decide('approve', [tool])}>{texts.approve}</button>
              <button type="button" class="quiet danger" disabled={acting.isBusy} aria-label={texts.rejectOne(tool.name)} onClick={() => void decide('reject', [tool])}>{texts.reject}</button>
            </div>
          )}
        </section>
      ))}
    </>
  )
}

interface ChangeAnswer {
  approved_version: number | null
  served_version: number | null
  differences: { field: string; before: unknown; after: unknown }[]
}

function Change({ tool }: { tool: Tool }) {
  const change = useLoaded((signal) => ask<ChangeAnswer>('GET', registryPath(`/tools/${tool.tool_id}/change`, { org: tool.org }), { signal }), [tool.tool_id, tool.version])
  const texts = t.approval
  if (change.problem) return <Failure problem={change.problem} onRetry={change.reload} />
  const value = change.value?.value
  if (!value) return <p role="status"><small>{t.loading}</small></p>
  return (
    <div class="stack">
      <small>{value.approved_version === null ? texts.never : value.served_version === null ? texts.servesNothing : texts.serves(value.served_version)}</small>
      {value.differences.map((each) => <Difference key={each.field} {...each} />)}
    </div>
  )
}
