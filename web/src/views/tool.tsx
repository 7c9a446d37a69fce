/** One tool: its schema, its versions, and a form in which two people cannot overwrite each other. */

import { useState } from 'preact/hooks'
import { ask, Problem, registryPath, told, type Tool, type Version } from '../api'
import { bodyOf, changedFields, type Draft, draftOf, type FieldName, merged } from '../edit'
import { useLoaded } from '../loading'
import { Difference, visible } from '../parts/difference'
import { Badge, Dialog, Empty, Failure, Notice, Select, TextArea, TextField } from '../parts/elements'
import { Scroller } from '../parts/scroller'
import { linkTo } from '../route'
import { format, t } from '../texts'
import { StatusBadges, useDrift } from './catalog'
import type { ViewProperties } from './properties'

export function ToolView({ name, org, session, mayEdit: mayAdminister }: ViewProperties) {
  const path = `/tools/${encodeURIComponent(name)}`
  const tool = useLoaded((signal) => ask<Tool>('GET', registryPath(path, { org }), { signal }), [path, org])
  const versions = useLoaded(
    (signal) => ask<VersionPage>('GET', registryPath(`${path}/versions`, { org, limit: VERSIONS }), { signal }), [path, org],
  )
  const drifting = useDrift(org)
  const [isEditing, setIsEditing] = useState(false)
  const [saved, setSaved] = useState('')
  const texts = t.catalog
  const done = (record: Tool) => {
    setIsEditing(false)
    setSaved(texts.saved(record.name, record.version))
    tool.reload()
    versions.reload()
  }
  const record = tool.value && told(tool.value.value)
  const isShared = record?.org === '' && Boolean(session.org ?? org) // the organisation reads it; the platform edits it
  const mayEdit = mayAdminister && !isShared
  return (
    <>
      <div class="title">
        <div>
          <a href={linkTo('catalog')}>← {texts.back}</a>
          <div class="row center"><h1>{name}</h1>{record && <StatusBadges tool={record} drift={drifting.get(`${record.org}/${record.name}`)} />}</div>
        </div>
        {record && mayEdit && !isEditing && (
          <button type="button" onClick={() => { setSaved(''); setIsEditing(true) }}>{texts.edit}</button>
        )}
      </div>
      {tool.problem && (session.org && tool.problem.status === 404
        ? <div class="card"><Empty title={texts.notOwn(session.org)}><p>{texts.notOwnHint}</p></Empty></div>
        : <Failure problem={tool.problem} onRetry={tool.reload} />)}
      {saved && <Notice tone="good">{saved}</Notice>}
      {isShared && <p><Badge>{texts.ofPlatform}</Badge> <small>{texts.sharedHint}</small></p>}
      {!tool.value && !tool.problem && <p role="status">{t.loading}</p>}
      {record && isEditing && (
        <Editor tool={record} etag={tool.value!.etag} path={path} org={org} onSaved={done} onDiscard={() => setIsEditing(false)} />
      )}
      {record && !isEditing && <Details tool={record} />}
      {versions.value && record && (
        <Versions
          key={tool.value!.etag} newest={versions.value.value} mayEdit={mayEdit && !isEditing} etag={tool.value!.etag} path={path} org={org} onDone={done}
        />
      )}
    </>
  )
}

function Details({ tool }: { tool: Tool }) {
  const texts = t.catalog
  const facts: [string, string | string[]][] = [
    [texts.fields.toolkit!, tool.toolkit], [texts.plugin, tool.plugin], [texts.fields.summary!, tool.summary],
    [texts.fields.when_to_use!, tool.when_to_use], [texts.fields.limitations!, tool.limitations], [texts.fields.tags!, tool.tags.join(', ')],
    [texts.fields.examples!, tool.examples], [texts.version, tool.version ? String(tool.version) : ''],
    [texts.changed, tool.updated_at && `${format.time(tool.updated_at)} ${texts.by(tool.updated_by)}`],
  ]
  return (
    <div class="columns">
      <section class="card">
        <h2>{texts.details}</h2>
        <p>{visible(tool.description)}</p>
        <dl class="facts">{facts.filter(([, value]) => value.length).map(([label, value]) => [<dt key={label}>{label}</dt>, <dd key={`${label} value`}>{typeof value === 'string' ? visible(value) : <ul class="plain">{value.map((each) => <li key={each}>{visible(each)}</li>)}</ul>}</dd>])}</dl>
        {tool.flags.length > 0 && (
          <Notice tone="warning"><div><strong>{texts.flags}</strong><ul>{tool.flags.map((flag) => <li key={flag.message}>{flag.message}</li>)}</ul></div></Notice>
        )}
      </section>
      <Schema parameters={tool.parameters} />
    </div>
  )
}

type Property = { type?: string | string[]; description?: string; enum?: unknown[] }

function Schema({ parameters }: { parameters: Record<string, unknown> | null }) {
  const texts = t.catalog
  const properties = Object.entries((parameters?.properties ?? {}) as Record<string, Property>)
  const required = new Set((parameters?.required as string[] | undefined) ?? [])
  return (
    <section class="card">
      <h2>{texts.schema}</h2>
      {properties.length === 0 ? <p>{texts.noSchema}</p> : (
        <Scroller label={texts.schema}>
          <table class="cards">
            <thead><tr>{[texts.parameter, texts.type, texts.required, texts.meaning].map((title) => <th key={title} scope="col">{title}</th>)}</tr></thead>
            <tbody>
              {properties.map(([name, property]) => (
                <tr key={name}>
                  <th scope="row" class="name">{visible(name)}</th>
                  <td>{[property.type ?? ''].flat().join(' | ')}</td>
                  <td data-label={texts.required}>{required.has(name) ? t.yes : t.no}</td>
                  <td>{visible(property.description ?? '')}{property.enum && <small> {visible(property.enum.map(String).join(', '))}</small>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroller>
      )}
      {parameters && <details><summary>{texts.asJson}</summary><pre tabIndex={0}>{visible(JSON.stringify(parameters, null, 2))}</pre></details>}
    </section>
  )
}

interface EditorProperties {
  tool: Tool
  etag: string
  path: string
  org: string | undefined
  onSaved: (tool: Tool) => void
  onDiscard: () => void
}

interface Conflict {
  theirs: Tool
  draft: Draft
  fields: FieldName[]
}

function Editor({ tool, etag, path, org, onSaved, onDiscard }: EditorProperties) {
  const [base, setBase] = useState({ draft: draftOf(tool), etag })
  const [draft, setDraft] = useState(base.draft)
  const [reason, setReason] = useState('')
  const [isReviewing, setIsReviewing] = useState(false)
  const [invalid, setInvalid] = useState('')
  const [problem, setProblem] = useState<Problem>()
  const [conflict, setConflict] = useState<Conflict>()
  const texts = t.catalog
  const changed = changedFields(base.draft, draft)
  const area = (field: FieldName, rows: number, more: { hint?: string; isCode?: boolean } = {}) => (
    <div class="whole"><TextArea label={texts.fields[field]!} value={draft[field]} rows={rows} onInput={(text) => setDraft({ ...draft, [field]: text })} {...more} /></div>
  )

  const review = () => {
    try {
      bodyOf(draft, changed)
      setInvalid('')
      setProblem(undefined)
      setIsReviewing(true)
    } catch (error) {
      setInvalid(texts.invalidJson((error as Error).message))
    }
  }
  const save = async () => {
    try {
      const { value } = await ask<Tool>('PUT', registryPath(path, { org, reason }), { body: bodyOf(draft, changed), etag: base.etag })
      onSaved(value)
    } catch (error) {
      setIsReviewing(false)
      if ((error as Problem).status === 412) await rebase()
      else setProblem(error as Problem)
    }
  }
  /** Puts the draft on top of the version that somebody else has saved. */
  const rebase = async () => {
    try {
      const { value, etag: newest } = await ask<Tool>('GET', registryPath(path, { org }))
      const theirs = draftOf(value)
      const { draft: both, conflicts } = merged(base.draft, draft, theirs)
      setBase({ draft: theirs, etag: newest })
      setDraft(both)
      setConflict({ theirs: value, draft: theirs, fields: conflicts })
    } catch (error) {
      setProblem(error as Problem)
    }
  }

  return (
    <form class="card" onSubmit={(event) => { event.preventDefault(); review() }}>
      {conflict && (
        <Notice tone="warning">
          <div class="stack">
            <strong>{texts.conflictTitle}</strong>
            <p>{texts.conflict(conflict.theirs.version, conflict.theirs.updated_by)}</p>
            {conflict.fields.length > 0 && <p>{texts.conflictFields}</p>}
            {conflict.fields.map((field) => (
              <div key={field} class="stack">
                <h3>{texts.fields[field]}</h3>
                <div class="difference">
                  <div><h4>{texts.theirs}</h4><pre>{visible(conflict.draft[field])}</pre></div>
                  <div><h4>{texts.yours}</h4><pre>{visible(draft[field])}</pre></div>
                </div>
                <div><button type="button" class="quiet" onClick={() => {
                  setDraft({ ...draft, [field]: conflict.draft[field] })
                  setConflict({ ...conflict, fields: conflict.fields.filter((each) => each !== field) })
                }}>{texts.takeTheirs}</button></div>
              </div>
            ))}
          </div>
        </Notice>
      )}
      <div class="form">
        {area('description', 4)}
        {area('summary', 1)}
        {area('when_to_use', 2)}
        {area('limitations', 2)}
        <TextField label={texts.fields.toolkit!} value={draft.toolkit} onInput={(toolkit) => setDraft({ ...draft, toolkit })} />
        <Select label={texts.fields.status!} value={draft.status} onInput={(status) => setDraft({ ...draft, status })} options={texts.statuses} />
        <TextField label={texts.fields.tags!} value={draft.tags} hint={texts.tagsHint} onInput={(tags) => setDraft({ ...draft, tags })} />
        {area('examples', 3, { hint: texts.examplesHint })}
        {area('parameters', 12, { isCode: true })}
      </div>
      {invalid && <Notice tone="bad">{invalid}</Notice>}
      {problem && <Failure problem={problem} />}
      <div class="row center">
        <button type="submit" disabled={changed.length === 0}>{texts.reviewChange}</button>
        <button type="button" class="quiet" onClick={onDiscard}>{texts.discard}</button>
        {changed.length === 0 && <small>{texts.noChange}</small>}
      </div>
      {isReviewing && (
        <Dialog title={texts.reviewChange} onClose={() => setIsReviewing(false)}>
          <div>
            {changed.map((field) => <Difference key={field} field={field} before={base.draft[field]} after={draft[field]} />)}
            <TextField label={texts.reason} value={reason} onInput={setReason} />
            <div class="row">
              <button type="button" onClick={() => void save()}>{texts.save}</button>
              <button type="button" class="quiet" onClick={() => setIsReviewing(false)}>{t.cancel}</button>
            </div>
          </div>
        </Dialog>
      )}
    </form>
  )
}

const VERSIONS = 50 // in one part

interface VersionPage {
  versions: Version[]
  next: number | null
  /** Of all parts; null on later ones. */
  total: number | null
}

interface VersionsProperties {
  newest: VersionPage
  mayEdit: boolean
  etag: string
  path: string
  org: string | undefined
  onDone: (tool: Tool) => void
}

function Versions({ newest, mayEdit, etag, path, org, onDone }: VersionsProperties) {
  const [{ versions, next }, setRead] = useState(newest)
  const [chosen, setChosen] = useState<number>()
  const [reason, setReason] = useState('')
  const [problem, setProblem] = useState<Problem>()
  const texts = t.catalog
  const rollBack = async () => {
    try {
      const body = { version: chosen, reason }
      onDone((await ask<Tool>('POST', registryPath(`${path}/rollback`, { org }), { body, etag })).value)
      setProblem(undefined)
    } catch (error) {
      setProblem(error as Problem)
    }
    setChosen(undefined)
  }
  const readOlder = async () => {
    try {
      const { value } = await ask<VersionPage>('GET', registryPath(`${path}/versions`, { org, limit: VERSIONS, before: next! }))
      setRead({ ...value, versions: [...versions, ...value.versions] })
      setProblem(undefined)
    } catch (error) {
      setProblem(error as Problem)
    }
  }
  return (
    <section class="card">
      <h2>{texts.versions} {newest.total !== null && newest.total > 1 && <small>{format.count(newest.total)}</small>}</h2>
      {problem && <Failure problem={problem} />}
      {versions.length === 0 && <Empty title={texts.noDifferences} />}
      {versions.map((version, place) => (
        <details key={version.version}>
          <summary>
            <strong>{texts.version} {version.version}</strong> <small>{format.time(version.at)} {texts.by(version.actor)}{version.reason && ` · ${version.reason}`}</small>
          </summary>
          <div class="stack">
            {version.differences.length === 0 && <p><small>{texts.noDifferences}</small></p>}
            {version.differences.map((each) => <Difference key={each.field} {...each} />)}
            {mayEdit && place > 0 && <div><button type="button" class="quiet" onClick={() => setChosen(version.version)}>{texts.rollback}</button></div>}
          </div>
        </details>
      ))}
      {next !== null && <div><button type="button" class="quiet" onClick={() => void readOlder()}>{texts.older}</button></div>}
      {chosen !== undefined && (
        <Dialog title={texts.rollbackTitle(chosen)} onClose={() => setChosen(undefined)}>
          <div>
            <p>{texts.rollbackText}</p>
            <TextField label={texts.reason} value={reason} onInput={setReason} />
            <div class="row">
              <button type="button" onClick={() => void rollBack()}>{texts.rollback}</button>
              <button type="button" class="quiet" onClick={() => setChosen(undefined)}>{t.cancel}</button>
            </div>
          </div>
        </Dialog>
      )}
    </section>
  )
}
