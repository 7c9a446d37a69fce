/** Plugins and tools whose calls fail or take long. */

import { useState } from 'preact/hooks'
import { ask, type Duration, type PluginCalls, registryPath, type ToolCalls } from '../api'
import { useLoaded } from '../loading'
import { Failure, ToolLink } from '../parts/elements'
import { Scroller } from '../parts/scroller'
import { type Order, SortTitle, useOrder } from '../parts/sorting'
import { format, t } from '../texts'

const MOST_TOOLS = 12

const failedOf = ({ failed, calls }: { failed: number; calls: number }) => (
  <>{format.count(failed)} <small>({format.share(calls ? failed / calls : null)})</small></>
)

/** Two cells. */
const Took = ({ mean, p95 }: Duration) => (
  <><td class="number">{format.milliseconds(mean)}</td><td class="number">{format.milliseconds(p95)}</td></>
)

export function PluginCallsCard({ plugins }: { plugins: PluginCalls[] }) {
  const texts = t.analytics
  const order = useOrder(plugins, {
    plugin: (each) => each.plugin, calls: (each) => each.calls, failed: (each) => each.failed,
    mean: (each) => each.duration_ms.mean, p95: (each) => each.duration_ms.p95,
  }, 'failed')
  const isTimed = plugins.some((each) => each.timed > 0)
  return (
    <section class="card" aria-label={texts.plugins}>
      <div><h2>{texts.plugins}</h2><small>{isTimed || plugins.length === 0 ? texts.pluginsHint : texts.noDurations}</small></div>
      {plugins.length === 0 ? <p>{texts.noPlugins}</p> : (
        <Scroller label={texts.tableOf(texts.plugins)}>
          <table>
            <thead>
              <tr>
                <SortTitle order={order} of="plugin" title={texts.plugin} isNumber={false} />
                <CallTitles order={order} />
                <th scope="col">{texts.failing}</th>
                {isTimed && <th scope="col">{texts.slowest}</th>}
              </tr>
            </thead>
            <tbody>
              {order.rows.map((each) => (
                <tr key={`${each.org}/${each.plugin}`}>
                  <th scope="row">{each.plugin}{each.org && <small> {each.org}</small>}</th>
                  <td class="number">{format.count(each.calls)}</td>
                  <td class="number">{failedOf(each)}</td>
                  <Took {...each.duration_ms} />
                  <td>{each.failing.length === 0 ? format.count(null) : each.failing.map((tool) => <div key={tool.name}><ToolLink name={tool.name} /> <small>{format.count(tool.failed)} / {format.count(tool.calls)}</small></div>)}</td>
                  {isTimed && <td>{each.slow.length === 0 ? format.count(null) : each.slow.map((tool) => <div key={tool.name}><ToolLink name={tool.name} /> <small>{format.milliseconds(tool.p95)}</small></div>)}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </Scroller>
      )}
    </section>
  )
}

const CallTitles = <T,>({ order }: { order: Order<T> }) => (
  <>
    <SortTitle order={order} of="calls" title={t.analytics.called} />
    <SortTitle order={order} of="failed" title={t.analytics.failures} />
    <SortTitle order={order} of="mean" title={t.analytics.mean} />
    <SortTitle order={order} of="p95" title={t.analytics.p95} />
  </>
)

/** The first of all called tools, in the chosen order. The service sorts them. */
export function ToolCallsCard({ org, since, days }: { org: string | undefined; since: string; days: string }) {
  const [by, setBy] = useState('p95')
  const read = useLoaded((signal) => ask<{ tools: ToolCalls[] }>('GET', registryPath('/analytics/tools', { org, since, by, limit: MOST_TOOLS }), { signal }), [org, days, by])
  const texts = t.analytics
  const tools = read.value?.value.tools
  const isTimed = tools?.some((tool) => tool.timed > 0)
  return (
    <section class="card" aria-label={texts.toolCalls}>
      <div class="row spread center">
        <div><h2>{texts.toolCalls}</h2><small>{tools?.length && !isTimed && (by === 'p95' || by === 'mean') ? texts.noDurations : texts.toolCallsHint(MOST_TOOLS)}</small></div>
        <div class="choices" role="group" aria-label={texts.orderBy}>
          {Object.entries(texts.orders).map(([value, text]) => <button key={value} type="button" aria-pressed={value === by} onClick={() => setBy(value)}>{text}</button>)}
        </div>
      </div>
      {read.problem && <Failure problem={read.problem} onRetry={read.reload} />}
      {tools?.length === 0 && <p>{texts.noCalls}</p>}
      {tools && tools.length > 0 && (
        <Scroller label={texts.tableOf(texts.toolCalls)}>
          <table>
            <thead><tr><th scope="col">{t.playground.tool}</th>{[texts.called, texts.failures, texts.mean, texts.p95].map((title) => <th key={title} scope="col" class="number">{title}</th>)}</tr></thead>
            <tbody>
              {tools.map((tool) => (
                <tr key={`${tool.org}/${tool.tool}`}>
                  <th scope="row"><ToolLink name={tool.tool} />{tool.org && <small> {tool.org}</small>}</th>
                  <td class="number">{format.count(tool.calls)}</td>
                  <td class="number">{failedOf(tool)}</td>
                  <Took {...tool.duration_ms} />
                </tr>
              ))}
            </tbody>
          </table>
        </Scroller>
      )}
    </section>
  )
}
