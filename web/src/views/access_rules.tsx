/** The rules in the order in which they decide, and a form that shows whom a rule would give or take tools. */

import { useEffect, useState } from 'preact/hooks'
import { useActing } from '../acting'
import { ask, Problem, registryPath } from '../api'
import { useLoaded } from '../loading'
import { Badge, Empty, Failure, Notice, TextField } from '../parts/elements'
import { RuleFields } from '../parts/rule_fields'
import { Scroller } from '../parts/scroller'
import { type Draft, draftOf, NEW, type Preview, readBody, type Rule, whoInWords, whomInWords } from '../rules'
import { format, t } from '../texts'
import type { ViewProperties } from './properties'

const MOST = 1_000
const TYPING_MS = 300
const EVERYBODY = JSON.stringify({ all: [] })

export function RulesPart({ session, org, mayEdit }: ViewProperties) {
  const rules = useLoaded(
    (signal) => ask<{ visibility_rules: Rule[] }>('GET', registryPath('/visibility-rules', { org, inactive: true, limit: MOST }), { signal }), [org],
  )
  const [edited, setEdited] = useState<Rule | 'new'>()
  const [saved, setSaved] = useState('')
  const texts = t.access
  const found = rules.value?.value.visibility_rules
  const owner = session.org ?? org ?? ''
  const newRule = !edited && mayEdit && <button type="button" onClick={() => { setSaved(''); setEdited('new') }}>{texts.newRule}</button>
  const done = (text: string) => { setEdited(undefined); setSaved(text); rules.reload() }
  return (
    <>
      {rules.problem && <Failure problem={rules.problem} onRetry={rules.reload} />}
      {saved && <Notice tone="good">{saved}</Notice>}
      {edited && <RuleEditor key={edited === 'new' ? '' : edited.rule_id} rule={edited === 'new' ? undefined : edited} org={org} onDone={done} onDiscard={() => setEdited(undefined)} />}
      {!found && !rules.problem && <p role="status">{t.loading}</p>}
      {found?.length === 0 && <div class="card"><Empty title={owner ? texts.noOwnRules(owner) : texts.noRules}><p>{owner ? texts.noOwnRulesHint : texts.noRulesHint}</p>{newRule}</Empty></div>}
      {found && found.length > 0 && (
        <section class="card">
          <div class="row spread center"><div><h2>{texts.rules}</h2><small>{texts.rulesHint}</small></div>{newRule}</div>
          <Scroller label={texts.rules}>
            <table class="cards">
              <thead>
                <tr>
                  <th scope="col" class="number">{texts.priority}</th><th scope="col">{texts.name}</th><th scope="col">{texts.effect}</th>
                  <th scope="col">{texts.what}</th><th scope="col">{texts.whom}</th>
                  {mayEdit && <th scope="col"><span class="hidden">{texts.actions}</span></th>}
                </tr>
              </thead>
              <tbody>
                {found.map((rule) => (
                  <tr key={rule.rule_id} class={rule.active ? undefined : 'off'}>
                    <td class="number" data-label={texts.priority}>{rule.priority}</td>
                    <th scope="row">{rule.name} {!rule.active && <Badge>{texts.off}</Badge>}</th>
                    <td><Badge tone={rule.effect === 'deny' ? 'bad' : 'good'}>{texts.effects[rule.effect]}</Badge></td>
                    <td><span class="name">{rule.tool || (rule.toolkit === '*' ? texts.everything : rule.toolkit)}</span>{!rule.tool && rule.toolkit !== '*' && <small> {texts.toolkit}</small>}</td>
                    <td data-label={texts.whom}>{whomInWords(rule.condition)}</td>
                    {mayEdit && <td class="number"><button type="button" class="quiet" disabled={rules.isLoading} aria-label={texts.editRule(rule.name)} onClick={() => { setSaved(''); setEdited(rule) }}>{t.catalog.edit}</button></td>}
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroller>
        </section>
      )}
    </>
  )
}

interface EditorProperties {
  rule: Rule | undefined
  org: string | undefined
  onDone: (said: string) => void
  onDiscard: () => void
}

function RuleEditor({ rule, org, onDone, onDiscard }: EditorProperties) {
  const [draft, setDraft] = useState(rule ? draftOf(rule) : NEW)
  const [base, setBase] = useState(rule)
  const [reason, setReason] = useState('')
  const [conflict, setConflict] = useState<Rule>()
  const acting = useActing()
  const texts = t.access
  const set = <K extends keyof Draft>(field: K) => (value: Draft[K]) => setDraft({ ...draft, [field]: value })
  const { body, invalid } = readBody(draft)

  const send = async (method: string, sent: unknown, version: number | undefined) => {
    const path = registryPath(rule ? `/visibility-rules/${rule.rule_id}` : '/visibility-rules', { org, reason })
    return ask<Rule>(method, path, { body: sent, ...(version === undefined ? {} : { etag: `"${version}"` }) })
  }
  const save = async () => {
    if (!body) return
    const isSaved = await acting.run(async () => {
      try {
        if (!base) await send('POST', { ...body, active: draft.active }, undefined)
        else {
          let { version } = base
          const fields = Object.fromEntries(Object.entries(body).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(base[name as keyof Rule])))
          if (Object.keys(fields).length) version = (await send('PUT', fields, version)).value.version
          if (draft.active !== base.active) await send('PUT', { active: draft.active }, version)
        }
      } catch (error) {
        if ((error as Problem).status === 412) await readTheirs()
        throw error
      }
    })
    if (isSaved) onDone(texts.saved(draft.name))
  }
  /** Keeps my draft. The next save replaces the other person's version, which is shown. */
  const readTheirs = async () => {
    const { value } = await ask<{ visibility_rules: Rule[] }>('GET', registryPath('/visibility-rules', { org, inactive: true, limit: MOST }))
    const theirs = value.visibility_rules.find((each) => each.rule_id === rule!.rule_id)
    setConflict(theirs)
    if (theirs) setBase(theirs)
  }
  const remove = async () => {
    if (await acting.run(() => send('DELETE', undefined, base!.version))) onDone(texts.deleted(base!.name))
  }

  return (
    <form class="card" onSubmit={(event) => { event.preventDefault(); void save() }}>
      <h2>{rule ? texts.editRule(rule.name) : texts.newRule}</h2>
      {conflict && (
        <Notice tone="warning">
          <div class="stack">
            <strong>{texts.conflictTitle}</strong>
            <p>{t.catalog.conflict(conflict.version, conflict.updated_by)}</p>
            <p>{texts.theirs(texts.effects[conflict.effect]!, conflict.tool || conflict.toolkit, whomInWords(conflict.condition), conflict.priority)}</p>
          </div>
        </Notice>
      )}
      <RuleFields draft={draft} onChange={setDraft} />
      <label class="check"><input type="checkbox" checked={draft.active} onChange={(event) => set('active')(event.currentTarget.checked)} />{texts.inForce}</label>
      {invalid && <Notice tone="bad">{invalid}</Notice>}
      <RulePreview body={body && { ...body, active: draft.active }} replaces={rule?.rule_id ?? ''} org={org} />
      <TextField label={t.catalog.reason} value={reason} onInput={setReason} />
      {acting.problem && !(acting.problem.status === 412 && conflict) && <Failure problem={acting.problem} />}
      <div class="row center">
        <button type="submit" disabled={!body || acting.isBusy}>{t.catalog.save}</button>
        <button type="button" class="quiet" onClick={onDiscard}>{t.catalog.discard}</button>
        {rule && <button type="button" class="quiet danger" disabled={acting.isBusy} onClick={() => void remove()}>{texts.delete}</button>}
      </div>
    </form>
  )
}

function RulePreview({ body, replaces, org }: { body: Record<string, unknown> | undefined; replaces: string; org: string | undefined }) {
  const [preview, setPreview] = useState<Preview>()
  const [problem, setProblem] = useState<Problem>()
  const texts = t.access
  const asked = JSON.stringify(body)
  useEffect(() => {
    if (!body) return setPreview(undefined)
    const stop = new AbortController()
    const timer = window.setTimeout(() => {
      ask<Preview>('POST', registryPath('/visibility-rules/preview', { org }), { body: { rule: body, replaces }, signal: stop.signal }).then(
        ({ value }) => { setPreview(value); setProblem(undefined) },
        (error: unknown) => { if (!stop.signal.aborted) { setPreview(undefined); setProblem(error as Problem) } },
      )
    }, TYPING_MS)
    return () => { window.clearTimeout(timer); stop.abort() }
  }, [asked, replaces, org])
  if (!body) return <p><small>{texts.previewHint}</small></p>
  if (problem) return <Notice tone="bad">{problem.message || t.problems.lost}</Notice>
  if (!preview) return <p role="status"><small>{t.loading}</small></p>
  const touched = preview.contexts.filter((each) => each.gained + each.lost > 0)
  const same = preview.contexts.length - touched.length
  const countsUnknown = body.effect === 'deny' && touched.some((each) => each.lost > 0) && JSON.stringify(body.condition) !== EVERYBODY
  return (
    <section class="stack" aria-label={texts.preview}>
      <h3>{texts.preview}</h3>
      <p role="status">{touched.length === 0 ? texts.noEffect(preview.contexts.length) : texts.effectOn(touched.length, same)}</p>
      {countsUnknown && <small>{texts.unknownCounts}</small>}
      {touched.length > 0 && (
        <Scroller label={texts.gainsAndLosses}>
          <table>
            <thead><tr><th scope="col">{texts.caller}</th><th scope="col" class="number">{texts.before}</th><th scope="col" class="number">{texts.after}</th><th scope="col">{texts.change}</th></tr></thead>
            <tbody>
              {touched.map((each) => (
                <tr key={whoInWords(each.context)}>
                  <th scope="row">{whoInWords(each.context)}</th>
                  <td class="number">{format.count(each.before)}</td>
                  <td class="number">{format.count(each.after)}</td>
                  <td><Names tone="bad" title={texts.loses(each.lost)} names={each.loses} /><Names tone="good" title={texts.gains(each.gained)} names={each.gains} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroller>
      )}
    </section>
  )
}

function Names({ title, names, tone }: { title: string; names: string[]; tone: 'good' | 'bad' }) {
  if (names.length === 0) return null
  return <details><summary><Badge tone={tone}>{title}</Badge></summary><ul class="names">{names.map((name) => <li key={name} class="name">{name}</li>)}</ul></details>
}
