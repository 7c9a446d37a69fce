/** Which toolkits belong to which pages: a matrix, whose cells add a toolkit to a mapping or take it away. */

import { useState } from 'preact/hooks'
import { useActing } from '../acting'
import { ask, namesOf, registryPath, type Toolkit } from '../api'
import { useLoaded } from '../loading'
import { Empty, Failure, Notice, TextField } from '../parts/elements'
import { Scroller } from '../parts/scroller'
import { t } from '../texts'
import type { ViewProperties } from './properties'

interface Mapping {
  page_id: string
  pattern: string
  categories: string[]
  priority: number
  version: number
}

const MOST = 1_000

export function PagesPart({ org, mayEdit }: ViewProperties) {
  const mappings = useLoaded((signal) => ask<{ page_mappings: Mapping[] }>('GET', registryPath('/page-mappings', { org, limit: MOST }), { signal }), [org])
  const toolkits = useLoaded((signal) => ask<{ categories: Toolkit[] }>('GET', registryPath('/categories', { org }), { signal }), [org])
  const [pattern, setPattern] = useState('')
  const [draft, setDraft] = useState<string>()
  const acting = useActing()
  const texts = t.access
  const problem = mappings.problem ?? toolkits.problem
  const rows = mappings.value?.value.page_mappings
  const named = new Set(rows?.flatMap((row) => row.categories))
  const toolkitRows = inOrder(toolkits.value?.value.categories ?? [], named)

  const change = async (row: Mapping, toolkit: string, isOn: boolean) => {
    const categories = isOn ? [...row.categories, toolkit] : row.categories.filter((each) => each !== toolkit)
    const path = registryPath(`/page-mappings/${row.page_id}`, { org })
    const etag = `"${row.version}"`
    await acting.run(
      () => (categories.length ? ask('PUT', path, { body: { categories }, etag }) : ask('DELETE', path, { etag })),
      categories.length ? '' : texts.mappingDeleted(row.pattern),
    )
    mappings.reload()
  }
  const add = async (toolkit: string) => {
    const body = { pattern: draft, categories: [toolkit] }
    if (await acting.run(() => ask('POST', registryPath('/page-mappings', { org }), { body }))) setDraft(undefined)
    mappings.reload()
  }
  const newPage = mayEdit && (
    <form class="row top" onSubmit={(event) => { event.preventDefault(); setDraft(pattern.trim()); setPattern('') }}>
      <TextField class="wide" label={texts.newPage} value={pattern} onInput={setPattern} hint={texts.patternHint} />
      <button type="submit" class="quiet raised" disabled={!pattern.trim()}>{texts.addPage}</button>
    </form>
  )
  return (
    <>
      {problem && <Failure problem={problem} onRetry={() => { mappings.reload(); toolkits.reload() }} />}
      {acting.problem && <Failure problem={acting.problem} />}
      {acting.done && <Notice tone="good">{acting.done}</Notice>}
      {!rows && !problem && <p role="status">{t.loading}</p>}
      {rows && (toolkitRows.length === 0 || (rows.length === 0 && !draft)) && (
        <div class="card"><Empty title={toolkitRows.length ? texts.noPages : texts.noToolkits}><p>{texts.noPagesHint}</p></Empty>{toolkitRows.length > 0 && newPage}</div>
      )}
      {rows && toolkitRows.length > 0 && (rows.length > 0 || draft) && (
        <section class="card">
          <div><h2>{texts.matrix}</h2><small>{mayEdit ? texts.matrixHint : texts.matrixReadHint}</small></div>
          {newPage}
          <Scroller label={texts.matrix} class="tall">
            <table class="matrix">
              <thead>
                <tr>
                  <th scope="col">{t.playground.toolkit}</th>
                  {draft && <th scope="col" class="name">{draft}</th>}
                  {rows.map((row) => <th key={row.page_id} scope="col" class="name">{row.pattern}</th>)}
                  <td class="rest" />
                </tr>
              </thead>
              <tbody>
                {toolkitRows.map(([toolkit, depth]) => (
                  <tr key={toolkit}>
                    <th scope="row" style={{ paddingLeft: `${1.25 * depth}rem` }}>{toolkit}</th>
                    {draft && <td><input type="checkbox" aria-label={texts.cell(toolkit, draft)} checked={false} disabled={acting.isBusy} onChange={() => void add(toolkit)} /></td>}
                    {rows.map((row) => {
                      const isOn = row.categories.includes(toolkit)
                      return (
                        <td key={row.page_id}>
                          {mayEdit
                            ? <input type="checkbox" aria-label={texts.cell(toolkit, row.pattern)} checked={isOn} disabled={acting.isBusy} onChange={(event) => void change(row, toolkit, event.currentTarget.checked)} />
                            : <span role="img" aria-label={isOn ? t.yes : t.no}>{isOn ? '●' : '·'}</span>}
                        </td>
                      )
                    })}
                    <td class="rest" />
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

/** Toolkits by name, each followed by its own toolkits, with depths; then toolkits that only mappings name. */
function inOrder(toolkits: Toolkit[], named: Iterable<string>): [string, number][] {
  const known = new Set(namesOf(toolkits))
  const others = [...named].filter((name) => !known.has(name)).map((name): Toolkit => ({ name, children: [] }))
  const walk = (level: Toolkit[], depth: number): [string, number][] =>
    level.toSorted((a, b) => a.name.localeCompare(b.name)).flatMap((toolkit) => [[toolkit.name, depth], ...walk(toolkit.children, depth + 1)])
  return walk([...toolkits, ...others], 0)
}
