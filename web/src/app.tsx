/** The frame of the page: who is signed in, for which organisation, and which view is open. */

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, Problem, readSession, registryPath, type Session, signOut } from './api'
import { useLoaded } from './loading'
import { Failure, TextField } from './parts/elements'
import { useIsPhone } from './parts/media'
import { useFade } from './parts/scroller'
import { linkTo, useRoute } from './route'
import { t } from './texts'
import { Access } from './views/access'
import { Analytics } from './views/analytics'
import { Approval } from './views/approval'
import { Catalog } from './views/catalog'
import { Overview } from './views/overview'
import { Playground } from './views/playground'
import { Plugins } from './views/plugins'
import type { ViewProperties } from './views/properties'
import { SignIn } from './views/sign_in'
import { ToolView } from './views/tool'

const VIEWS = { overview: Overview, playground: Playground, catalog: Catalog, approval: Approval, access: Access, plugins: Plugins, analytics: Analytics }
type ViewName = keyof typeof VIEWS

const THEME = 'toolroll.theme'
type Theme = 'system' | 'light' | 'dark'

export function App() {
  const [session, setSession] = useState<Session | null>()
  const [problem, setProblem] = useState<Problem>()
  const begin = () => {
    setProblem(undefined)
    readSession().then(setSession, (error: Problem) => (error.status === 401 ? setSession(null) : setProblem(error)))
  }
  useEffect(begin, [])
  useEffect(() => {
    const end = () => setSession(null)
    addEventListener('signed-out', end)
    return () => removeEventListener('signed-out', end)
  }, [])
  if (problem) return <main class="alone"><Failure problem={problem} onRetry={begin} /></main>
  if (session === undefined) return <main class="alone"><p role="status">{t.loading}</p></main>
  if (session === null) return <SignIn onDone={setSession} />
  return <Frame session={session} onSignOut={() => signOut().catch(() => {}).finally(() => setSession(null))} />
}

function Frame({ session, onSignOut }: { session: Session; onSignOut: () => void }) {
  const route = useRoute()
  const [org, setOrg] = useState('')
  const main = useRef<HTMLElement>(null)
  const isFirst = useRef(true)
  const title = t.views[route.view as ViewName] ?? t.product
  useEffect(() => {
    document.title = `${route.name || title} · ${t.product}`
    if (!isFirst.current) main.current?.focus() // a screen reader reads the new view, not the old link
    isFirst.current = false
  }, [route.view, route.name])
  const View = route.view === 'catalog' && route.name ? ToolView : VIEWS[route.view as ViewName]
  const properties: ViewProperties = {
    session,
    org: session.org === null ? org || undefined : undefined,
    mayEdit: session.roles.includes('administer'),
    name: route.name,
  }
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus() }}>{t.skip}</a>
      <header><div class="side">
        <a class="brand" href={linkTo('overview')}>{t.product}</a>
        <Views current={route.view} />
        <Who summary={session.org === null ? org || t.platform : session.org || t.platform}>
          {session.org === null && <Organisation value={org} onChange={setOrg} />}
          <ThemeChoice />
          <p>{session.has_keys ? t.signedInAs(session.name, session.org) : t.withoutKeys}</p>
          {session.has_keys && <button type="button" class="quiet" onClick={onSignOut}>{t.signOut}</button>}
        </Who>
      </div></header>
      <main id="main" ref={main} tabIndex={-1}>
        {View ? <View key={`${route.view}/${route.name}/${org}`} {...properties} /> : <p>{t.notFound}</p>}
      </main>
    </div>
  )
}

/** The links to the views. Where they do not fit, the current one is scrolled into sight. */
function Views({ current }: { current: string }) {
  const nav = useRef<HTMLElement>(null)
  useFade(nav)
  useEffect(() => {
    const link = nav.current?.querySelector<HTMLElement>('[aria-current]')
    if (link) nav.current!.scrollLeft = link.offsetLeft - nav.current!.offsetLeft - 16
  }, [current])
  return (
    <nav aria-label={t.navigation} ref={nav}>
      {(Object.keys(VIEWS) as ViewName[]).map((view) => (
        <a key={view} href={linkTo(view)} aria-current={view === current ? 'page' : undefined}>{t.views[view]}</a>
      ))}
    </nav>
  )
}

/** The shown organisation and the signed-in person; on a phone behind a click, so that the view comes first. */
function Who({ summary, children }: { summary: string; children: ComponentChildren }) {
  const isPhone = useIsPhone()
  if (!isPhone) return <div class="who">{children}</div>
  return <details class="account"><summary>{summary}</summary><div class="who">{children}</div></details>
}

function Organisation({ value, onChange }: { value: string; onChange: (org: string) => void }) {
  const [text, setText] = useState(value)
  const known = useLoaded((signal) => ask<{ organisations: string[] }>('GET', registryPath('/organisations', { text: text.trim(), limit: 50 }), { signal }), [text.trim()])
  return (
    <form class="organisation" onSubmit={(event) => { event.preventDefault(); onChange(text.trim()) }}>
      <TextField label={t.organisation} value={text} onInput={setText} placeholder={t.platform} onBlur={() => onChange(text.trim())} list="organisations" autocomplete="off" />
      <datalist id="organisations">{known.value?.value.organisations.map((name) => <option key={name} value={name} />)}</datalist>
    </form>
  )
}

function ThemeChoice() {
  const [theme, setTheme] = useState<Theme>(() => (localStorage.getItem(THEME) as Theme | null) ?? 'system')
  useEffect(() => {
    document.documentElement.dataset.theme = theme
    localStorage.setItem(THEME, theme)
  }, [theme])
  return (
    <label class="theme">
      <span>{t.theme.label}</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
        <option value="system">{t.theme.system}</option>
        <option value="light">{t.theme.light}</option>
        <option value="dark">{t.theme.dark}</option>
      </select>
    </label>
  )
}
