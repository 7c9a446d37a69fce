/** A tool in an edit form: its texts, the changed fields, and the merge of two edits. */

import type { Tool } from './api'

export const FIELDS = ['description', 'summary', 'when_to_use', 'limitations', 'toolkit', 'status', 'tags', 'examples', 'parameters'] as const
export type FieldName = (typeof FIELDS)[number]
export type Draft = Record<FieldName, string>

export function draftOf(tool: Tool): Draft {
  const draft = Object.fromEntries(FIELDS.map((field) => [field, String(tool[field] ?? '')])) as Draft
  draft.tags = tool.tags.join(', ')
  draft.examples = tool.examples.join('\n')
  draft.parameters = tool.parameters ? JSON.stringify(tool.parameters, null, 2) : ''
  return draft
}

export const changedFields = (before: Draft, after: Draft) => FIELDS.filter((field) => before[field] !== after[field])

/** The changed fields in the service's form. Throws an Error about wrong parameters. */
export function bodyOf(draft: Draft, fields: readonly FieldName[]): Record<string, unknown> {
  return Object.fromEntries(fields.map((field) => [field, valueOf(field, draft[field])]))
}

function valueOf(field: FieldName, text: string): unknown {
  const parts = (by: string | RegExp) => text.split(by).map((part) => part.trim()).filter(Boolean)
  if (field === 'tags') return parts(',')
  if (field === 'examples') return parts('\n')
  if (field !== 'parameters') return text
  if (!text.trim()) return null
  const value: unknown = JSON.parse(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('{…}')
  return value
}

/** Merges my draft with a newer version: fields that only the newer one changed are from it, all others mine. */
export function merged(base: Draft, mine: Draft, theirs: Draft): { draft: Draft; conflicts: FieldName[] } {
  const draft = { ...mine }
  const conflicts: FieldName[] = []
  for (const field of FIELDS) {
    if (theirs[field] === base[field] || theirs[field] === mine[field]) continue
    if (mine[field] === base[field]) draft[field] = theirs[field]
    else conflicts.push(field)
  }
  return { draft, conflicts }
}
