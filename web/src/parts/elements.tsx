/** The small parts of all views: fields, badges, notices, and texts for empty places. */

import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import type { Problem } from '../api'
import { isPassing } from '../loading'
import { linkTo } from '../route'
import { t } from '../texts'

interface Labelled {
  label: string
  hint?: string
  children: (attributes: { id: string; 'aria-describedby'?: string }) => ComponentChildren
  class?: string
}

export function Field({ label, hint, children, class: name }: Labelled) {
  const id = useId()
  return (
    <div class={`field ${name ?? ''}`}>
      <label for={id}>{label}</label>
      {children(hint ? { id, 'aria-describedby': `${id}-hint` } : { id })}
      {hint && <small id={`${id}-hint`}>{hint}</small>}
    </div>
  )
}

type Input = { label: string; value: string; onInput: (value: string) => void; hint?: string; class?: string }
type Attributes = {
  type?: 'text' | 'search' | 'number' | 'password'
  min?: number
  placeholder?: string
  autocomplete?: 'off' | 'username' | 'current-password'
  required?: boolean
  autofocus?: boolean
  onBlur?: () => void
  onEnter?: () => void
  list?: string
}

export function TextField({ label, value, onInput, hint, class: name, type = 'text', onEnter, ...attributes }: Input & Attributes) {
  return (
    <Field label={label} {...(hint ? { hint } : {})} {...(name ? { class: name } : {})}>
      {(field) => <input {...field} {...attributes} type={type as 'text'} value={value} onInput={(event) => onInput(event.currentTarget.value)}
        {...(onEnter ? { onKeyDown: (event: KeyboardEvent) => { if (event.key === 'Enter') { event.preventDefault(); onEnter() } } } : {})} />}
    </Field>
  )
}

export function TextArea({ label, value, onInput, hint, rows = 3, isCode = false }: Input & { rows?: number; isCode?: boolean }) {
  return (
    <Field label={label} {...(hint ? { hint } : {})}>
      {(field) => (
        <textarea {...field} class={isCode ? 'code' : undefined} rows={rows} value={value} spellcheck={!isCode}
          onInput={(event) => onInput(event.currentTarget.value)} />
      )}
    </Field>
  )
}

export function Select({ label, value, onInput, options, class: name }: Input & { options: (string | [string, string])[] }) {
  return (
    <Field label={label} {...(name ? { class: name } : {})}>
      {(field) => (
        <select {...field} value={value} onChange={(event) => onInput(event.currentTarget.value)}>
          {options.map((option) => {
            const [key, text] = typeof option === 'string' ? [option, option] : option
            return <option key={key} value={key}>{text}</option>
          })}
        </select>
      )}
    </Field>
  )
}

const JOINTS = /(?<=[_\-./:])|(?<=[a-z])(?=[A-Z])/

/** A tool's name, which may break between its words: a phone is narrower than many names. */
export function Name({ children }: { children: string }) {
  return <>{children.split(JOINTS).map((part, place) => (place ? [<wbr key={place} />, part] : part))}</>
}

export function ToolLink({ name }: { name: string }) {
  return <a class="name" href={linkTo('catalog', name)}><Name>{name}</Name></a>
}

export function Badge({ children, tone = 'plain' }: { children: ComponentChildren; tone?: 'plain' | 'good' | 'warning' | 'bad' }) {
  return <span class={`badge ${tone}`}>{children}</span>
}

export function Notice({ children, tone }: { children: ComponentChildren; tone: 'good' | 'warning' | 'bad' }) {
  return <div class={`notice ${tone}`} role={tone === 'good' ? 'status' : 'alert'}>{children}</div>
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p><strong>{title}</strong></p>{children}</div>
}

export function Failure({ problem, onRetry }: { problem: Problem; onRetry?: () => void }) {
  const { lost, denied, missing, unavailable, failed } = t.problems
  const known: Record<number, string> = { 0: lost, 403: denied, 404: missing, 503: unavailable }
  return (
    <Notice tone={isPassing(problem) ? 'warning' : 'bad'}>
      <span>{known[problem.status] ?? failed}{problem.message && ` ${problem.message}`}</span>
      {onRetry && <button type="button" class="quiet" onClick={onRetry}>{t.retry}</button>}
    </Notice>
  )
}

/** A window over the page. The browser keeps the focus in it, closes it on Escape and gives the focus back. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => element.current?.showModal(), [])
  return (
    <dialog ref={element} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  )
}
