/** Tries out a message: the selected tools, the stages, and the effect of another profile or a change. */

import { useState } from 'preact/hooks'
import { ask, Problem, registryPath, type Session, type Trial } from '../api'
import { Badge, Empty, Failure, Select, TextArea, TextField, ToolLink } from '../parts/elements'
import { useIsPhone } from '../parts/media'
import { format, t } from '../texts'
import { PastSelections } from './past_selections'
import { ChangeFields, NO_CHANGE, whatIfOf } from './playground_change'
import { Result } from './selection_result'
import type { ViewProperties } from './properties'

const words = (text: string) => text.split(',').map((word) => word.trim()).filter(Boolean)
const START = { message: t.playground.example, user: '', roles: '', tier: '', page: '', settings: '', k: '', budget: '' }

interface Run {
  profile: string
  title: string
  trial: Trial
}

export function Playground({ session, org }: ViewProperties) {
  const [form, setForm] = useState(START)
  const [profile, setProfile] = useState(session.profile)
  const [other, setOther] = useState('')
  const [change, setChange] = useState(NO_CHANGE)
  const [isChanged, setIsChanged] = useState(false)
  const [runs, setRuns] = useState<Run[]>()
  const [problem, setProblem] = useState<Problem>()
  const [isBusy, setIsBusy] = useState(false)
  const isPhone = useIsPhone()
  const set = (name: keyof typeof START) => (value: string) => setForm({ ...form, [name]: value })
  const whatIf = isChanged ? whatIfOf(change) : undefined
  const texts = t.playground

  const run = async () => {
    setIsBusy(true)
    setProblem(undefined)
    const body = {
      message: form.message,
      context: { org: session.org ?? org ?? '', user: form.user, tier: form.tier, page: form.page, roles: words(form.roles), settings: words(form.settings) },
      ...(form.k ? { k: Number(form.k) } : {}),
      ...(form.budget ? { budget_tokens: Number(form.budget) } : {}),
    }
    const decide = async (by: string, title: string, more: object = {}): Promise<Run> =>
      ({ profile: by, title, trial: (await ask<Trial>('POST', registryPath('/test-selection', { profile: by, org }), { body: { ...body, ...more } })).value })
    try {
      setRuns(await Promise.all([
        decide(profile, whatIf ? texts.now : profile),
        ...(whatIf ? [decide(profile, texts.changed, { what_if: whatIf })] : []),
        ...(!whatIf && other && other !== profile ? [decide(other, other)] : []),
      ]))
    } catch (error) {
      const found = error as Problem
      setProblem(found)
      if (found.status === 401) window.dispatchEvent(new Event('signed-out'))
    } finally {
      setIsBusy(false)
    }
  }

  return (
    <>
      <div class="title"><div><h1>{texts.title}</h1><p>{texts.explanation}</p></div></div>
      <form class="card" onSubmit={(event) => { event.preventDefault(); void run() }}>
        <TextArea label={texts.message} value={form.message} onInput={set('message')} rows={2} />
        <details open={!isPhone}>
          <summary>{texts.contextAndLimits}</summary>
          <div class="form">
            <TextField label={texts.user} value={form.user} onInput={set('user')} />
            <TextField label={texts.roles} value={form.roles} onInput={set('roles')} placeholder={texts.rolesExample} />
            <TextField label={texts.tier} value={form.tier} onInput={set('tier')} />
            <TextField label={texts.page} value={form.page} onInput={set('page')} />
            <TextField label={texts.settings} value={form.settings} onInput={set('settings')} placeholder={texts.settingsExample} />
            <TextField label={texts.k} value={form.k} onInput={set('k')} type="number" min={1} placeholder={texts.byProfile} />
            <TextField label={texts.budget} value={form.budget} onInput={set('budget')} type="number" min={1} placeholder={texts.noLimit} />
            <Select label={texts.profile} value={profile} onInput={setProfile} options={profileOptions(session)} />
            {!isChanged && <Select label={texts.compareWith} value={other} onInput={setOther} options={[['', texts.nothing], ...profileOptions(session)]} />}
          </div>
        </details>
        <details open={isChanged} onToggle={(event) => setIsChanged(event.currentTarget.open)}>
          <summary>{texts.whatIf} <small>{texts.whatIfHint}</small></summary>
          <ChangeFields change={change} org={org} onChange={setChange} />
        </details>
        <div class="row center">
          <button type="submit" disabled={isBusy || !form.message.trim() || (isChanged && !whatIf)}>{isChanged ? texts.runBoth : texts.run}</button>
          {isChanged && !whatIf && <small>{texts.unfinished}</small>}
        </div>
      </form>
      {problem && <Failure problem={problem} onRetry={run} />}
      {!runs && !problem && <Empty title={texts.empty} />}
      {runs && runs.length > 1 && <Changes from={runs[0]!} to={runs[1]!} />}
      {runs && (
        <div class={runs.length > 1 ? 'columns' : 'stack'}>
          {runs.map((each, place) => (
            <Result
              key={each.title} title={each.title} profile={each.profile} names={each.trial.names} tools={each.trial.tools} stages={each.trial.stages}
              confidence={each.trial.confidence} hasMatch={each.trial.has_match} degraded={each.trial.degraded}
              {...(runs.length > 1 ? { others: runs[1 - place]!.trial.names } : {})}
            />
          ))}
        </div>
      )}
      <PastSelections org={org} />
    </>
  )
}

/** Tools that only one of the two selections has, and the tools whose scores differ most. */
function Changes({ from, to }: { from: Run; to: Run }) {
  const texts = t.playground
  const [old, now] = [from.trial.names, to.trial.names]
  const gained = now.filter((name) => !old.includes(name))
  const lost = old.filter((name) => !now.includes(name))
  const [isWhole, setIsWhole] = useState(false)
  const differing = [...lost.map((name): [string, boolean] => [name, false]), ...gained.map((name): [string, boolean] => [name, true])]
  const isSame = differing.length === 0
  const moved = movedScores(from.trial, to.trial)
  return (
    <section class="card" aria-label={texts.difference}>
      <div><h2>{texts.difference}</h2><p role="status">{isSame ? (String(old) === String(now) ? texts.sameTools : texts.sameInOtherOrder) : texts.differs(gained.length, lost.length, to.title)}</p></div>
      {!isSame && (
        <ul class="plain row badges">
          {(isWhole ? differing : differing.slice(0, FIRST)).map(([name, isGained]) => <li key={name}><Badge tone={isGained ? 'good' : 'bad'}>{isGained ? '+' : '−'} {name}</Badge></li>)}
          {differing.length > FIRST && <li><button type="button" class="chip" aria-expanded={isWhole} onClick={() => setIsWhole(!isWhole)}>{isWhole ? t.analytics.fewer : texts.andMore(differing.length - FIRST)}</button></li>}
        </ul>
      )}
      {moved.length > 0 && (
        <table>
          <caption>{texts.moved}</caption>
          <thead><tr><th scope="col">{texts.tool}</th><th scope="col" class="number">{from.title}</th><th scope="col" class="number">{to.title}</th><th scope="col" class="number">{texts.change}</th></tr></thead>
          <tbody>
            {moved.map(({ name, before, after }) => (
              <tr key={name}><th scope="row"><ToolLink name={name} /></th><td class="number">{format.score(before)}</td><td class="number">{format.score(after)}</td><td class="number">{format.signed(after - before)}</td></tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

const FIRST = 12 // differing tools without a click
const MOST_MOVED = 5
const LEAST_MOVE = 0.005

function movedScores(from: Trial, to: Trial): { name: string; before: number; after: number }[] {
  const before = new Map(from.tools.map((tool) => [tool.name, tool.score]))
  return to.tools
    .map((tool) => ({ name: tool.name, before: before.get(tool.name) ?? 0, after: tool.score }))
    .filter((each) => Math.abs(each.after - each.before) >= LEAST_MOVE)
    .sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before))
    .slice(0, MOST_MOVED)
}

function profileOptions(session: Session): [string, string][] {
  return session.profiles.map((name) => [name, name === session.profile ? t.playground.served(name) : name])
}
