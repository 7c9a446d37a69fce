/** A message tried out: which tools would be selected, by which stages, and under another profile. */

import { useState } from 'preact/hooks'
import { ask, Problem, registryPath, type Session, type Trial, type TrialTool } from '../api'
import type { ViewProperties } from '../app'
import { Badge, Empty, Failure, Notice, Select, TextArea, TextField } from '../parts/elements'
import { Table } from '../parts/table'
import { linkTo } from '../route'
import { format, t } from '../texts'

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
            <Result key={each.profile} run={each} {...(runs.length > 1 ? { other: runs[1 - place]! } : {})} />
          ))}
        </div>
      )}
    </>
  )
}

function profileOptions(session: Session): [string, string][] {
  return session.profiles.map((name) => [name, name === session.profile ? t.playground.served(name) : name])
}

type Shown = 'selected' | 'leftOut' | 'all'

function Result({ run, other }: { run: Run; other?: Run }) {
  const texts = t.playground
  const { trial } = run
  const [shown, setShown] = useState<Shown>('selected')
  const [part, setPart] = useState('')
  const counts = { selected: trial.names.length, leftOut: trial.tools.length - trial.names.length, all: trial.tools.length }
  const rows = trial.tools.filter(
    (tool) => (shown === 'all' || tool.selected === (shown === 'selected')) && tool.name.toLowerCase().includes(part.toLowerCase()),
  )
  const best = Math.max(...trial.tools.map((tool) => tool.score), Number.EPSILON)
  const elsewhere = other && new Set(other.trial.names)
  return (
    <section class="card" aria-label={texts.results(run.profile)}>
      <div class="row spread center">
        <h2>{run.profile}</h2>
        <small role="status">{texts.summary(counts.selected, counts.all, format.share(trial.confidence))}</small>
      </div>
      {!trial.has_match && <Notice tone="warning">{texts.noMatch}</Notice>}
      {trial.degraded.length > 0 && <Notice tone="warning">{texts.degraded(trial.degraded.join(', '))}</Notice>}
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
            { key: 'name', title: texts.tool, width: '2.5fr', cell: (tool) => <ToolName tool={tool} isOnlyHere={tool.selected && !!elsewhere && !elsewhere.has(tool.name)} /> },
            { key: 'why', title: texts.why, width: '2.5fr', cell: (tool) => <ul class="reasons">{tool.reasons.map((reason) => <li key={reason}>{reason}</li>)}</ul> },
            { key: 'score', title: texts.score, width: '7rem', isExtra: true, isNumber: true, cell: (tool) => <Score score={tool.score} best={best} /> },
          ]}
        />
      )}
      <details>
        <summary>{texts.stages}</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label={texts.stages}>
          <table>
            <thead><tr><th scope="col">{texts.stage}</th><th scope="col">{texts.effect}</th><th scope="col" class="number">{texts.inPlay}</th></tr></thead>
            <tbody>
              {trial.stages.map((step, place) => (
                <tr key={place}>
                  <td><code>{step.reason}</code></td>
                  <td>{texts.effects[step.verb] ?? step.verb}</td>
                  <td class="number">{format.count(step.in_play)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  )
}

function ToolName({ tool, isOnlyHere }: { tool: TrialTool; isOnlyHere: boolean }) {
  return (
    <span class="stack">
      <span><a class="name" href={linkTo('catalog', tool.name)}>{tool.name}</a> {isOnlyHere && <Badge tone="warning">{t.playground.onlyHere}</Badge>}</span>
      {tool.toolkit && <small>{tool.toolkit}</small>}
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
