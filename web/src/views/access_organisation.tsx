/** The tiers of the registry, and the pins and settings of one organisation. */

import { useState } from 'preact/hooks'
import { useActing } from '../acting'
import { ask, registryPath } from '../api'
import { useLoaded } from '../loading'
import { Badge, Failure, Notice, TextField, ToolLink } from '../parts/elements'
import { format, t } from '../texts'
import type { ViewProperties } from './properties'

interface Pin {
  tool: string
  tool_id: string
  pinned: boolean
  pin_weight: number
  updated_at: string
}

interface Setting {
  key: string
  is_set: boolean
  updated_at: string
}

export function OrganisationPart({ session, org, mayEdit }: ViewProperties) {
  const owner = session.org ?? org ?? ''
  return (
    <div class="columns three">
      <Tiers mayEdit={mayEdit && session.org === null} />
      <Settings org={org} owner={owner} mayEdit={mayEdit} />
      {owner ? <Pins org={org} mayEdit={mayEdit} /> : <section class="card"><h2>{t.access.pins}</h2><p>{t.access.pinsOfPlatform}</p></section>}
    </div>
  )
}

function Tiers({ mayEdit }: { mayEdit: boolean }) {
  const tiers = useLoaded((signal) => ask<{ tiers: string[] }>('GET', registryPath('/tiers'), { signal }), [])
  const [text, setText] = useState<string>()
  const acting = useActing()
  const texts = t.access
  const now = tiers.value?.value.tiers
  const save = async () => {
    const body = { tiers: (text ?? '').split(',').map((tier) => tier.trim()).filter(Boolean) }
    if (await acting.run(() => ask('PUT', registryPath('/tiers'), { body }), texts.tiersSaved)) { setText(undefined); tiers.reload() }
  }
  return (
    <section class="card">
      <div><h2>{texts.tiers}</h2><small>{texts.tiersHint}</small></div>
      {tiers.problem && <Failure problem={tiers.problem} onRetry={tiers.reload} />}
      {now && (now.length ? <ol class="tiers">{now.map((tier) => <li key={tier}><Badge>{tier}</Badge></li>)}</ol> : <p>{texts.noTiers}</p>)}
      {acting.problem && <Failure problem={acting.problem} />}
      {acting.done && <Notice tone="good">{acting.done}</Notice>}
      {mayEdit && now && (
        <form class="row" onSubmit={(event) => { event.preventDefault(); void save() }}>
          <TextField label={texts.tiersLabel} class="wide" value={text ?? now.join(', ')} onInput={setText} />
          <button type="submit" class="quiet raised" disabled={text === undefined || acting.isBusy}>{t.catalog.save}</button>
        </form>
      )}
    </section>
  )
}

function Settings({ org, owner, mayEdit }: { org: string | undefined; owner: string; mayEdit: boolean }) {
  const settings = useLoaded((signal) => ask<{ settings: Setting[] }>('GET', registryPath('/settings', { org }), { signal }), [org])
  const [key, setKey] = useState('')
  const acting = useActing()
  const texts = t.access
  const put = async (name: string, is_set: boolean) => {
    const path = registryPath(`/settings/${encodeURIComponent(name)}`, { org })
    if (await acting.run(() => ask('PUT', path, { body: { is_set } }))) settings.reload()
  }
  const found = settings.value?.value.settings
  return (
    <section class="card">
      <div><h2>{texts.settings(owner)}</h2><small>{texts.settingsHint}</small></div>
      {settings.problem && <Failure problem={settings.problem} onRetry={settings.reload} />}
      {acting.problem && <Failure problem={acting.problem} />}
      {found?.length === 0 && <p>{texts.noSettings}</p>}
      {found && found.length > 0 && (
        <table>
          <tbody>
            {found.map((setting) => (
              <tr key={setting.key}>
                <th scope="row" class="name">{setting.key}</th>
                <td>{mayEdit
                  ? <label class="check"><input type="checkbox" checked={setting.is_set} disabled={acting.isBusy} aria-label={texts.hasValue(setting.key)} onChange={(event) => void put(setting.key, event.currentTarget.checked)} />{setting.is_set ? texts.isSet : texts.isNotSet}</label>
                  : <Badge tone={setting.is_set ? 'good' : 'plain'}>{setting.is_set ? texts.isSet : texts.isNotSet}</Badge>}</td>
                <td class="number"><small>{format.time(setting.updated_at)}</small></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {mayEdit && found && (
        <form class="row" onSubmit={(event) => { event.preventDefault(); void put(key.trim(), true); setKey('') }}>
          <TextField label={texts.newSetting} class="wide" value={key} onInput={setKey} />
          <button type="submit" class="quiet raised" disabled={!key.trim() || acting.isBusy}>{texts.add}</button>
        </form>
      )}
    </section>
  )
}

function Pins({ org, mayEdit }: { org: string | undefined; mayEdit: boolean }) {
  const pins = useLoaded((signal) => ask<{ pins: Pin[] }>('GET', registryPath('/pins', { org }), { signal }), [org])
  const [tool, setTool] = useState('')
  const acting = useActing()
  const texts = t.access
  const change = async (method: string, name: string, body?: unknown) => {
    if (await acting.run(() => ask(method, registryPath(`/pins/${encodeURIComponent(name)}`, { org }), { body }))) pins.reload()
  }
  const found = pins.value?.value.pins
  return (
    <section class="card">
      <div><h2>{texts.pins}</h2><small>{texts.pinsHint}</small></div>
      {pins.problem && <Failure problem={pins.problem} onRetry={pins.reload} />}
      {acting.problem && <Failure problem={acting.problem} />}
      {found?.length === 0 && <p>{texts.noPins}</p>}
      {found && found.length > 0 && (
        <table>
          <tbody>
            {found.map((pin) => (
              <tr key={pin.tool_id}>
                <th scope="row"><ToolLink name={pin.tool} /></th>
                <td><Badge tone={pin.pinned ? 'good' : 'warning'}>{pin.pinned ? texts.pinned : texts.unpinned}</Badge></td>
                {mayEdit && <td class="number"><button type="button" class="quiet" aria-label={texts.removePin(pin.tool)} onClick={() => void change('DELETE', pin.tool)}>{texts.remove}</button></td>}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {mayEdit && found && (
        <form class="row" onSubmit={(event) => { event.preventDefault(); void change('PUT', tool.trim(), {}); setTool('') }}>
          <TextField label={texts.newPin} class="wide" value={tool} onInput={setTool} />
          <button type="submit" class="quiet raised" disabled={!tool.trim() || acting.isBusy}>{texts.add}</button>
        </form>
      )}
    </section>
  )
}
