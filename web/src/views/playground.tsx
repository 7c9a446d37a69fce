/** A message tried out: which tools would be selected, by which stages, and under another profile. */

import { useState } from 'preact/hooks'
import { ask, Problem, registryPath, type Session, type Trial } from '../api'
import type { ViewProperties } from '../app'
import { Empty, Failure, Select, TextArea, TextField } from '../parts/elements'
import { t } from '../texts'
import { PastSelections } from './past_selections'
import { Result } from './selection_result'

const words = (text: string) => text.split(',').map((word) => word.trim()).filter(Boolean)
const START = { message: t.playground.example, user: '', roles: '', tier: '', page: '', settings: '', k: '', budget: '' }

interface Run {
  profile: string
  trial: Trial
}

export function Playground({ session, org }: ViewProperties) {
  const [form, setForm] = useState(START)
  const [profile, setProfile] = useState(session.profile)
  const [other, setOther] = useState('')
  const [runs, setRuns] = useState<Run[]>()
  const [problem, setProblem] = useState<Problem>()
  const [isBusy, setIsBusy] = useState(false)
  const set = (name: keyof typeof START) => (value: string) => setForm({ ...form, [name]: value })

  const run = async () => {
    setIsBusy(true)
    setProblem(undefined)
    const body = {
      message: form.message,
      context: { org: org ?? '', user: form.user, tier: form.tier, page: form.page, roles: words(form.roles), settings: words(form.settings) },
      ...(form.k ? { k: Number(form.k) } : {}),
      ...(form.budget ? { budget_tokens: Number(form.budget) } : {}),
    }
    try {
      const profiles = other && other !== profile ? [profile, other] : [profile]
      const trials = profiles.map(async (each) => {
        const path = registryPath('/test-selection', { profile: each })
        return { profile: each, trial: (await ask<Trial>('POST', path, { body })).value }
      })
      setRuns(await Promise.all(trials))
    } catch (error) {
      const found = error as Problem
      setProblem(found)
      if (found.status === 401) window.dispatchEvent(new Event('signed-out'))
    } finally {
      setIsBusy(false)
    }
  }

  const texts = t.playground
  return (
    <>
      <div class="title"><div><h1>{texts.title}</h1><p>{texts.explanation}</p></div></div>
      <form class="card" onSubmit={(event) => { event.preventDefault(); void run() }}>
        <TextArea label={texts.message} value={form.message} onInput={set('message')} rows={2} />
        <div class="form">
          <TextField label={texts.user} value={form.user} onInput={set('user')} />
          <TextField label={texts.roles} value={form.roles} onInput={set('roles')} placeholder={texts.rolesHint} />
          <TextField label={texts.tier} value={form.tier} onInput={set('tier')} />
          <TextField label={texts.page} value={form.page} onInput={set('page')} />
          <TextField label={texts.settings} value={form.settings} onInput={set('settings')} placeholder={texts.rolesHint} />
          <TextField label={texts.k} value={form.k} onInput={set('k')} type="number" min={1} />
          <TextField label={texts.budget} value={form.budget} onInput={set('budget')} type="number" min={1} />
          <Select label={texts.profile} value={profile} onInput={setProfile} options={profileOptions(session)} />
          <Select label={texts.compareWith} value={other} onInput={setOther} options={[['', texts.nothing], ...profileOptions(session)]} />
        </div>
        <div><button type="submit" disabled={isBusy}>{texts.run}</button></div>
      </form>
      {problem && <Failure problem={problem} onRetry={run} />}
      {!runs && !problem && <Empty title={texts.empty} />}
      {runs && (
        <div class={runs.length > 1 ? 'columns' : 'stack'}>
          {runs.map((each, place) => (
            <Result
              key={each.profile} profile={each.profile} names={each.trial.names} tools={each.trial.tools} stages={each.trial.stages}
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

function profileOptions(session: Session): [string, string][] {
  return session.profiles.map((name) => [name, name === session.profile ? t.playground.served(name) : name])
}
