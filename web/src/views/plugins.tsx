/** Who registers tools: when last, what that changed, and how these tools do. */

import { ask, registryPath } from '../api'
import type { ViewProperties } from '../app'
import { useLoaded } from '../loading'
import { Badge, Empty, Failure } from '../parts/elements'
import { linkTo } from '../route'
import { format, t } from '../texts'

const ACTIONS = ['create', 'change', 'restore', 'delete'] as const

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
  shown: number
  called: number
  succeeded: number
}

export function Plugins({ org }: ViewProperties) {
  const plugins = useLoaded((signal) => ask<{ plugins: Plugin[] }>('GET', registryPath('/plugins', { org }), { signal }), [org])
  const texts = t.plugins
  const found = plugins.value?.value.plugins
  return (
    <>
      <div class="title"><div><h1>{texts.title}</h1><p>{texts.explanation}</p></div></div>
      {plugins.problem && <Failure problem={plugins.problem} onRetry={plugins.reload} />}
      {!found && !plugins.problem && <p role="status">{t.loading}</p>}
      {found?.length === 0 && <div class="card"><Empty title={texts.none}><p>{texts.noneHint}</p><pre tabIndex={0}>{texts.command}</pre></Empty></div>}
      {found && found.length > 0 && <div class="columns">{found.map((plugin) => <PluginCard key={`${plugin.org}/${plugin.name}`} plugin={plugin} />)}</div>}
    </>
  )
}

function PluginCard({ plugin }: { plugin: Plugin }) {
  const texts = t.plugins
  const { changes } = plugin
  const states: [(count: number) => string, number, 'warning' | 'plain'][] = [[texts.waiting, plugin.waiting, 'warning'], [texts.flagged, plugin.flagged, 'warning'], [texts.inactive, plugin.inactive, 'plain']]
  const figures: [string, string, string][] = [
    [texts.tools, format.count(plugin.tools), ''],
    [texts.shown, format.compact(plugin.shown), ''],
    [texts.called, format.compact(plugin.called), ''],
    [texts.errors, plugin.called ? format.share(1 - plugin.succeeded / plugin.called) : format.share(null), plugin.called ? texts.ofCalls(plugin.called - plugin.succeeded, plugin.called) : ''],
  ]
  const moved = changes ? ACTIONS.filter((action) => changes[action].length > 0) : []
  return (
    <section class="card" aria-label={plugin.name}>
      <div class="row spread center">
        <h2>{plugin.name} <small>{plugin.plugin_version}{plugin.org && ` · ${plugin.org}`}</small></h2>
        <span class="row">
          {states.filter(([, count]) => count > 0).map(([text, count, tone]) => <Badge key={text(count)} tone={tone}>{text(count)}</Badge>)}
          {states.every(([, count]) => count === 0) && <Badge tone="good">{texts.well}</Badge>}
        </span>
      </div>
      <small>{texts.syncedAt(format.time(plugin.synced_at), plugin.synced_by)}</small>
      <dl class="figures">
        {figures.map(([label, value, hint]) => <div key={label} class="figure"><dt>{label}</dt><dd><span class="value">{value}</span>{hint && <small>{hint}</small>}</dd></div>)}
      </dl>
      {changes && moved.length > 0 && (
        <details>
          <summary>{texts.lastChange(format.time(changes.at))} <small>{moved.map((action) => texts.counted[action]!(changes[action].length)).join(', ')}</small></summary>
          {moved.map((action) => (
            <div key={action} class="stack">
              <h3>{texts.actions[action]}</h3>
              <ul class="names">{changes[action].map((name) => <li key={name}>{action === 'delete' ? <span class="name">{name}</span> : <a class="name" href={linkTo('catalog', name)}>{name}</a>}</li>)}</ul>
            </div>
          ))}
        </details>
      )}
    </section>
  )
}
