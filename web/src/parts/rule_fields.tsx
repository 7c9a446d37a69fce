/** The fields of a rule: its effect, its tools and its callers. */

import { ask, registryPath } from '../api'
import { useLoaded } from '../loading'
import { type Draft, WHOM, type Whom } from '../rules'
import { t } from '../texts'
import { Select, TextArea, TextField } from './elements'

export function RuleFields({ draft, onChange }: { draft: Draft; onChange: (draft: Draft) => void }) {
  const tiers = useLoaded((signal) => ask<{ tiers: string[] }>('GET', registryPath('/tiers'), { signal }), [])
  const texts = t.access
  const set = <K extends keyof Draft>(field: K) => (value: Draft[K]) => onChange({ ...draft, [field]: value })
  const known = tiers.value?.value.tiers ?? []
  const isChoice = draft.whom.startsWith('tier') && known.length > 0
  return (
    <div class="form">
      <TextField label={texts.name} value={draft.name} onInput={set('name')} required />
      <Select label={texts.effect} value={draft.effect} onInput={(value) => set('effect')(value as Draft['effect'])} options={[['deny', texts.effects.deny!], ['allow', texts.effects.allow!]]} />
      <Select label={texts.what} value={draft.target} onInput={(value) => set('target')(value as Draft['target'])} options={[['toolkit', texts.aToolkit], ['tool', texts.aTool]]} />
      <TextField label={draft.target === 'tool' ? t.playground.tool : t.playground.toolkit} value={draft.targetName} onInput={set('targetName')} {...(draft.target === 'toolkit' ? { hint: texts.everythingHint } : {})} />
      <Select label={texts.whom} value={draft.whom} onInput={(value) => onChange({ ...draft, whom: value as Whom, value: '' })} options={WHOM.map((whom) => [whom, texts.whomNames[whom]!])} />
      {isChoice && <Select label={t.playground.tier} value={draft.value} onInput={set('value')} options={[['', texts.choose], ...known]} />}
      {!isChoice && draft.whom !== 'everybody' && draft.whom !== 'json' && <TextField label={texts.value} value={draft.value} onInput={set('value')} />}
      <TextField label={texts.priority} value={draft.priority} onInput={set('priority')} type="number" />
      {draft.whom === 'json' && <div class="whole"><TextArea label={texts.condition} value={draft.value} onInput={set('value')} rows={5} isCode /></div>}
    </div>
  )
}
