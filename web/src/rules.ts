/** Rules as people read and write them: a condition with one comparison as a choice, any other as JSON. */

import { t } from './texts'

export interface Rule {
  rule_id: string
  name: string
  org: string
  effect: 'allow' | 'deny'
  condition: Record<string, unknown>
  tool: string
  toolkit: string
  priority: number
  active: boolean
  version: number
  updated_at: string
  updated_by: string
}

export interface Who {
  org: string
  user: string
  roles: string[]
  tier: string
  page: string
}

export interface Preview {
  contexts: { context: Who; before: number; after: number; gained: number; lost: number; gains: string[]; loses: string[] }[]
}

export const WHOM = ['everybody', 'role', 'tier_below', 'tier_from', 'user', 'page', 'org', 'json'] as const
export type Whom = (typeof WHOM)[number]

export interface Draft {
  name: string
  effect: 'allow' | 'deny'
  whom: Whom
  value: string
  target: 'tool' | 'toolkit'
  targetName: string
  priority: string
  active: boolean
}

export const NEW: Draft = { name: '', effect: 'deny', whom: 'role', value: '', target: 'toolkit', targetName: '', priority: '0', active: true }

export function draftOf(rule: Rule): Draft {
  const [whom, value] = whomOf(rule.condition)
  const target = rule.tool ? 'tool' : 'toolkit'
  return { name: rule.name, effect: rule.effect, whom, value, target, targetName: rule.tool || rule.toolkit, priority: String(rule.priority), active: rule.active }
}

function whomOf(condition: Record<string, unknown>): [Whom, string] {
  const [[name, value] = ['', undefined], ...others] = Object.entries(condition)
  if (others.length === 0) {
    if (name === 'all' && Array.isArray(value) && value.length === 0) return ['everybody', '']
    if (typeof value === 'string' && (['role', 'user', 'page', 'org'] as string[]).includes(name)) return [name as Whom, value]
    const [[operator, tier] = ['', undefined], ...more] = Object.entries(value ?? {})
    if (name === 'tier' && typeof tier === 'string' && more.length === 0) {
      if (operator === 'lt') return ['tier_below', tier]
      if (operator === 'gte') return ['tier_from', tier]
    }
  }
  return ['json', JSON.stringify(condition, null, 2)]
}

/** The rule in the service's form; undefined while a field is missing. Throws an Error for wrong JSON. */
export function bodyOf(draft: Draft): Record<string, unknown> | undefined {
  const value = draft.value.trim()
  const targetName = draft.targetName.trim()
  if (!draft.name.trim() || !targetName || (draft.whom !== 'everybody' && !value)) return undefined
  return {
    name: draft.name.trim(), effect: draft.effect, condition: conditionOf(draft.whom, value),
    tool: draft.target === 'tool' ? targetName : '', toolkit: draft.target === 'toolkit' ? targetName : '',
    priority: Number(draft.priority) || 0,
  }
}

/** The same, or the problem with it. */
export function readBody(draft: Draft): { body?: Record<string, unknown>; invalid?: string } {
  try {
    const body = bodyOf(draft)
    return body ? { body } : {}
  } catch (error) {
    return { invalid: t.access.invalidJson((error as Error).message) }
  }
}

function conditionOf(whom: Whom, value: string): unknown {
  if (whom === 'everybody') return { all: [] }
  if (whom === 'tier_below') return { tier: { lt: value } }
  if (whom === 'tier_from') return { tier: { gte: value } }
  return whom === 'json' ? JSON.parse(value) : { [whom]: value }
}

/** The callers of a rule, in words. */
export function whomInWords(condition: Record<string, unknown>): string {
  const [whom, value] = whomOf(condition)
  return whom === 'json' ? JSON.stringify(condition) : t.access.whomInWords[whom]!(value)
}

export const whoInWords = (who: Who): string =>
  [
    who.org && `${t.organisation} ${who.org}`, who.user && `${t.playground.user} ${who.user}`, who.roles.length > 0 && `${t.access.role} ${who.roles.join(', ')}`,
    who.tier && `${t.playground.tier} ${who.tier}`, who.page && `${t.playground.page} ${who.page}`,
  ].filter(Boolean).join(' · ') || t.access.anyone
