/** Plugins: the changes of their last registration, the success of their tools, and tools to review. */

import { useState } from 'preact/hooks'
import { ask, type Duration, type PluginCalls, registryPath } from '../api'
import { useLoaded } from '../loading'
import { Badge, Empty, Failure, Select, ToolLink } from '../parts/elements'
import { daysAgo } from '../periods'
import { format, t } from '../texts'
import type { ViewProperties } from './properties'

const ACTIONS = ['create', 'change', 'restore', 'delete'] as const
const DAYS = '30' // in which durations count
const MANY = 0.5 // of the calls of a day

interface Plugin {
  org: string
  name: string
  plugin_version: string
  tools: number
  waiting: number
  flagged: number
  inactive: number
  synced_at: string
  synced_by: string
  changes: ({ at: string } & Record<(typeof ACTIONS)[number], string[]>) | null
  called: number
  last_day: { calls: number; failed: number }
  last_call: string | null
  last_failure: string | null
  left_out: { tool: string; since: string }[] | null
}

type Orders = Record<string, (plugin: Plugin, took: Duration) => number>

// The highest first; the service answers by name.
const ORDERS: Orders = {
  name: () => 0,
  failed: (plugin) => plugin.last_day.failed,
  slow: (_, took) => took.p95 ?? -1,
  called: (plugin) => plugin.last_day.calls,
  changed: (plugin) => Date.parse(plugin.synced_at),
}
const UNTIMED: Duration = { mean: null, p95: null }

export function Plugins({ org }: ViewProperties) {
  const plugins = useLoaded((signal) => ask<{ plugins: Plugin[] }>('GET', registryPath('/plugins', { org }), { signal }), [org])
  const calls = useLoaded((signal) => ask<{ plugins: PluginCalls[] }>('GET', registryPath('/plugins/calls', { org, since: daysAgo(DAYS).toISOString() }), { signal }), [org])
  const [by, setBy] = useState('name')
  const texts = t.plugins
  const took = new Map(calls.value?.value.plugins.map((each) => [`${each.org}/${each.plugin}`, each.duration_ms]))
  const tookOf = (plugin: Plugin) => took.get(`${plugin.org}/${plugin.name}`) ?? UNTIMED
  const order = ORDERS[by]!
  const found = plugins.value && [...plugins.value.value.plugins].sort((a, b) => order(b, tookOf(b)) - order(a, tookOf(a)))
  return (
    <>
      <div class="title">
        <div><h1>{texts.title}</h1><p>{texts.explanation} <code>{texts.upCommand}</code></p></div>
        {found && found.length > 1 && <Select label={texts.orderBy} value={by} onInput={setBy} options={Object.entries(texts.orders)} />}
      </div>
      {plugins.problem && <Failure problem={plugins.problem} onRetry={plugins.reload} />}
      {!found && !plugins.problem && <p role="status">{t.loading}</p>}
      {found?.length === 0 && <div class="card"><Empty title={texts.none}><p>{texts.noneHint}</p><pre tabIndex={0}>{texts.command}</pre></Empty></div>}
      {found && found.length > 0 && <div class="columns">{found.map((plugin) => <PluginCard key={`${plugin.org}/${plugin.name}`} plugin={plugin} took={tookOf(plugin)} />)}</div>}
    </>
  )
}

/** The plugin's calls in the last day. Only its gateway knows whether it is up. */
function Verdict({ plugin: { left_out, last_day } }: { plugin: Plugin }) {
  const texts = t.plugins
  const [first] = left_out ?? []
  if (first) return <Badge tone="bad">{texts.leftOut(left_out!.length, format.time(first.since))}</Badge>
  if (last_day.calls === 0) return <Badge>{texts.notCalled}</Badge>
  if (last_day.failed === 0) return <Badge tone="good">{texts.works}</Badge>
  return <Badge tone="warning">{last_day.failed > MANY * last_day.calls ? texts.mostFail : texts.someFail}</Badge>
}

function PluginCard({ plugin, took }: { plugin: Plugin; took: Duration }) {
  const texts = t.plugins
  const { changes, last_day } = plugin
  const states: [(count: number) => string, number, 'warning' | 'plain'][] = [[texts.waiting, plugin.waiting, 'warning'], [texts.flagged, plugin.flagged, 'warning'], [texts.inactive, plugin.inactive, 'plain']]
  const figures: [string, string, string][] = [
    [texts.tools, format.count(plugin.tools), ''],
    [texts.callsOfDay, format.compact(last_day.calls), texts.inAll(plugin.called)],
    [texts.failedOfDay, last_day.calls ? format.share(last_day.failed / last_day.calls) : format.share(null), last_day.calls ? texts.ofCalls(last_day.failed, last_day.calls) : ''],
    [texts.duration, format.milliseconds(took.p95), took.p95 === null ? texts.notTimed : texts.meanOf(format.milliseconds(took.mean))],
  ]
  const moved = changes ? ACTIONS.filter((action) => changes[action].length > 0) : []
  return (
    <section class="card" aria-label={plugin.name}>
      <div class="row spread center">
        <h2>{plugin.name} <small>{plugin.plugin_version}{plugin.org && ` · ${plugin.org}`}</small></h2>
        <span class="row badges">
          <Verdict plugin={plugin} />
          {states.filter(([, count]) => count > 0).map(([text, count, tone]) => <Badge key={text(count)} tone={tone}>{text(count)}</Badge>)}
        </span>
      </div>
      <dl class="figures">
        {figures.map(([label, value, hint]) => <div key={label} class="figure"><dt>{label}</dt><dd><span class="value">{value}</span>{hint && <small>{hint}</small>}</dd></div>)}
      </dl>
      <dl class="facts">
        <dt>{texts.lastCall}</dt><dd>{plugin.last_call ? format.hourOrDay(plugin.last_call) : texts.never}</dd>
        <dt>{texts.lastFailure}</dt><dd>{plugin.last_failure ? format.hourOrDay(plugin.last_failure) : texts.never}</dd>
        {plugin.left_out && plugin.left_out.length > 0 && <><dt>{texts.leftOutNow}</dt><dd>{plugin.left_out.map((each) => <div key={each.tool}><ToolLink name={each.tool} /> <small>{t.analytics.since(format.time(each.since))}</small></div>)}</dd></>}
        <dt>{texts.synced}</dt><dd>{texts.syncedAt(format.time(plugin.synced_at), plugin.synced_by)}</dd>
      </dl>
      {changes && moved.length > 0 && (
        <details>
          <summary>{texts.lastChange(format.time(changes.at))} <small>{moved.map((action) => texts.counted[action]!(changes[action].length)).join(', ')}</small></summary>
          {moved.map((action) => (
            <div key={action} class="stack">
              <h3>{texts.actions[action]}</h3>
              <ul class="names">{changes[action].map((name) => <li key={name}>{action === 'delete' ? <span class="name">{name}</span> : <ToolLink name={name} />}</li>)}</ul>
            </div>
          ))}
        </details>
      )}
    </section>
  )
}
