/** Why a caller sees a tool, or not. */

import { useState } from 'preact/hooks'
import { useActing } from '../acting'
import { ask, registryPath } from '../api'
import { Failure, TextField } from '../parts/elements'
import { t } from '../texts'
import type { ViewProperties } from './properties'

interface Verdict {
  name: string
  visible: boolean
  level: string
  reason: string
  rule: { name: string; org: string } | null
}

const words = (text: string) => text.split(',').map((word) => word.trim()).filter(Boolean)

export function WhyPart({ org }: ViewProperties) {
  const [form, setForm] = useState({ name: '', user: '', roles: '', tier: '', page: '' })
  const [verdict, setVerdict] = useState<Verdict>()
  const acting = useActing()
  const texts = t.access
  const set = (field: keyof typeof form) => (value: string) => setForm({ ...form, [field]: value })
  const run = () => acting.run(async () => {
    setVerdict(undefined)
    const context = { org: org ?? '', user: form.user, roles: words(form.roles), tier: form.tier, page: form.page }
    setVerdict((await ask<Verdict>('POST', registryPath('/why'), { body: { name: form.name.trim(), context } })).value)
  })
  return (
    <>
      <form class="card" onSubmit={(event) => { event.preventDefault(); void run() }}>
        <div class="form">
          <TextField label={t.playground.tool} value={form.name} onInput={set('name')} required />
          <TextField label={t.playground.user} value={form.user} onInput={set('user')} />
          <TextField label={t.playground.roles} value={form.roles} onInput={set('roles')} hint={t.playground.rolesHint} />
          <TextField label={t.playground.tier} value={form.tier} onInput={set('tier')} />
          <TextField label={t.playground.page} value={form.page} onInput={set('page')} />
        </div>
        <div><button type="submit" disabled={acting.isBusy || !form.name.trim()}>{texts.ask}</button></div>
      </form>
      {acting.problem && <Failure problem={acting.problem} />}
      {verdict && (
        <div class={`verdict ${verdict.visible ? 'good' : 'bad'}`} role="status">
          <div>
            <strong>{verdict.visible ? texts.sees(verdict.name) : texts.seesNot(verdict.name)}</strong>
            {verdict.reason && <p>{verdict.reason}</p>}
            {verdict.rule && <p>{texts.byRule(verdict.rule.name, verdict.rule.org)}</p>}
          </div>
        </div>
      )}
    </>
  )
}
