/** A change to try out in the playground: a new or removed rule, or other texts of a tool. Nothing is saved. */

import { useEffect, useState } from 'preact/hooks'
import { ask, registryPath, type Tool } from '../api'
import { useLoaded } from '../loading'
import { Failure, Notice, Select, TextArea, TextField } from '../parts/elements'
import { RuleFields } from '../parts/rule_fields'
import { type Draft, NEW, readBody, type Rule } from '../rules'
import { t } from '../texts'

export type Change = { kind: 'rule' | 'without' | 'texts'; rule: Draft; replaces: string; tool: string; description: string; examples: string }
export const NO_RULE: Draft = { ...NEW, name: t.playground.triedRule }
export const NO_CHANGE: Change = { kind: 'rule', rule: NO_RULE, replaces: '', tool: '', description: '', examples: '' }

/** The change in the service's form; undefined while a field is missing. */
export function whatIfOf(change: Change): Record<string, unknown> | undefined {
  if (change.kind === 'without') return change.replaces ? { replaces: change.replaces } : undefined
  if (change.kind === 'texts') {
    const examples = change.examples.split('\n').map((line) => line.trim()).filter(Boolean)
    return change.tool && change.description.trim() ? { tool: { name: change.tool, description: change.description, examples } } : undefined
  }
  const { body } = readBody(change.rule)
  return body && { rule: { ...body, active: true } }
}

interface Properties {
  change: Change
  org: string | undefined
  onChange: (change: Change) => void
}

export function ChangeFields({ change, org, onChange }: Properties) {
  const texts = t.playground
  const set = <K extends keyof Change>(field: K) => (value: Change[K]) => onChange({ ...change, [field]: value })
  const { invalid } = readBody(change.rule)
  return (
    <div class="stack">
      <div class="choices" role="group" aria-label={texts.change}>
        {(['rule', 'without', 'texts'] as const).map((kind) => (
          <button key={kind} type="button" aria-pressed={kind === change.kind} onClick={() => set('kind')(kind)}>{texts.changes[kind]}</button>
        ))}
      </div>
      {change.kind === 'rule' && <RuleFields draft={change.rule} onChange={set('rule')} />}
      {change.kind === 'rule' && invalid && <Notice tone="bad">{invalid}</Notice>}
      {change.kind === 'without' && <RuleChoice org={org} value={change.replaces} onInput={set('replaces')} />}
      {change.kind === 'texts' && <TextsOfTool change={change} org={org} onChange={onChange} />}
    </div>
  )
}

function RuleChoice({ org, value, onInput }: { org: string | undefined; value: string; onInput: (rule: string) => void }) {
  const rules = useLoaded((signal) => ask<{ visibility_rules: Rule[] }>('GET', registryPath('/visibility-rules', { org, limit: 1_000 }), { signal }), [org])
  const found = rules.value?.value.visibility_rules
  if (rules.problem) return <Failure problem={rules.problem} onRetry={rules.reload} />
  if (found?.length === 0) return <p>{t.playground.noRules}</p>
  return <Select label={t.playground.ruleLess} value={value} onInput={onInput} options={[['', t.access.choose], ...(found ?? []).map((rule): [string, string] => [rule.rule_id, rule.name])]} />
}

function TextsOfTool({ change, org, onChange }: Properties) {
  const texts = t.playground
  const [name, setName] = useState(change.tool)
  const tool = useLoaded(async (signal) => (change.tool ? (await ask<Tool>('GET', registryPath(`/tools/${encodeURIComponent(change.tool)}`, { org }), { signal })).value : undefined), [change.tool, org])
  const found = tool.value?.name === change.tool ? tool.value : undefined
  useEffect(() => {
    if (found && !change.description) onChange({ ...change, description: found.description, examples: found.examples.join('\n') })
  }, [found])
  const choose = () => { if (name.trim() !== change.tool) onChange({ ...change, tool: name.trim(), description: '', examples: '' }) }
  return (
    <div class="stack">
      <TextField label={texts.tool} value={name} onInput={setName} onBlur={choose} onEnter={choose} hint={texts.toolHint} />
      {tool.problem && change.tool && <Failure problem={tool.problem} />}
      {found && <TextArea label={t.catalog.description} value={change.description} rows={3} onInput={(description) => onChange({ ...change, description })} />}
      {found && <TextArea label={t.catalog.fields.examples!} hint={t.catalog.examplesHint} value={change.examples} rows={3} onInput={(examples) => onChange({ ...change, examples })} />}
    </div>
  )
}
