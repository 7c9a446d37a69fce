/** Requests to the service. A failed one throws a `Problem`, which has the service's own words. */

export const REGISTRY = '/internal/tool-registry'
const SESSION = '/admin/session'

/** An error from the service, or status 0 if it did not answer. */
export class Problem extends Error {
  readonly status: number
  constructor(status: number, detail: string) {
    super(detail)
    this.status = status
  }
}

export interface Answer<T> {
  value: T
  etag: string
}

export interface Options {
  body?: unknown
  etag?: string
  key?: string
  signal?: AbortSignal
}

/** Identifies the page to the service, which ignores a cookie without this header. */
const PAGE_HEADER = { 'X-Toolroll-Page': '1' }

export async function ask<T>(method: string, path: string, options: Options = {}): Promise<Answer<T>> {
  const headers: Record<string, string> = { ...PAGE_HEADER }
  if (options.body !== undefined) headers['Content-Type'] = 'application/json'
  if (options.etag) headers['If-Match'] = options.etag
  if (options.key) headers['X-Service-Key'] = options.key
  let answer: Response
  try {
    answer = await fetch(path, {
      method,
      headers,
      credentials: 'same-origin',
      signal: options.signal ?? null,
      body: options.body === undefined ? null : JSON.stringify(options.body),
    })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new Problem(0, '')
  }
  const isJson = answer.headers.get('Content-Type')?.includes('json') ?? false
  const value = isJson ? await answer.json() : undefined
  if (!answer.ok) throw new Problem(answer.status, String(value?.detail ?? answer.statusText))
  return { value: value as T, etag: answer.headers.get('ETag') ?? '' }
}

/** A path below the registry's prefix. Parameters without a value are left out. */
export function registryPath(path: string, parameters: Record<string, string | number | boolean | undefined> = {}): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== '' && value !== false) query.set(name, String(value))
  }
  return `${REGISTRY}${path}${query.size ? `?${query}` : ''}`
}

export interface Session {
  name: string
  key_id: string
  org: string | null
  roles: string[]
  has_keys: boolean
  profile: string
  profiles: string[]
  version: string
}

export const readSession = async () => (await ask<Session>('GET', SESSION)).value
export const signIn = async (key: string) => (await ask<Session>('POST', SESSION, { key })).value
export interface SignInWays {
  accounts: boolean
  /** The identity provider's name; empty without one. */
  provider: string
}

const SIGN_IN = '/admin/sign-in'
export const readSignIn = async () => (await ask<SignInWays>('GET', SIGN_IN)).value
export const signInWithPassword = (name: string, password: string) => ask<void>('POST', SIGN_IN, { body: { name, password } })
export const signOut = () => ask<void>('DELETE', SESSION)

export interface Health {
  ready: boolean
  degraded: string[]
  catalog_revision: string
}

/** While the service cannot select, the probe answers 503 with a body: no error here. */
export async function readHealth(): Promise<Health> {
  try {
    return (await (await fetch('/readyz')).json()) as Health
  } catch {
    throw new Problem(0, '')
  }
}

export interface Tool {
  tool_id: string
  org: string
  plugin: string
  version: number
  name: string
  description: string
  toolkit: string
  status: string
  review: string
  parameters: Record<string, unknown>
  summary: string
  when_to_use: string
  limitations: string
  tags: string[]
  examples: string[]
  flags: { code: string; message: string }[]
  updated_at: string
  updated_by: string
  [field: string]: unknown
}

/** A part of the tools that meet some conditions. */
export interface ToolPage {
  tools: Tool[]
  next: string
  /** Of all parts; null on later ones. */
  total: number | null
}

// Fields that the registry has only for an organisation's own tools.
const UNSAID = { review: 'approved', flags: [], examples: [], plugin: '', version: 0, updated_at: '', updated_by: '' }

/** A tool from the service. Of the platform's tools, an organisation gets the served content, without state. */
export const told = (tool: Tool): Tool => ({ ...UNSAID, ...tool })

export interface Toolkit {
  name: string
  children: Toolkit[]
}

/** Names of toolkits and of the toolkits below them. */
export const namesOf = (toolkits: Toolkit[]): string[] => toolkits.flatMap((toolkit) => [toolkit.name, ...namesOf(toolkit.children)])

export interface Version {
  version: number
  at: string
  actor: string
  reason: string
  changed: string[]
  differences: { field: string; before: unknown; after: unknown }[]
  [field: string]: unknown
}

export interface TrialTool {
  name: string
  toolkit: string
  selected: boolean
  score: number
  reasons: string[]
  /** After each stage; null where it is not in play. */
  scores: (number | null)[]
}

export interface Trial {
  names: string[]
  tools: TrialTool[]
  stages: { verb: string; reason: string; in_play: number }[]
  confidence: number
  has_match: boolean
  degraded: string[]
  catalog_revision: string
  [field: string]: unknown
}

export interface PastSelection {
  event_id: string
  org: string
  at: string
  page: string
  tier: string
  profile: string
  selected: string[]
  outcome: string | null
}

export interface Replay {
  same: boolean
  missing: string[]
  differences: string[]
  decided: string[] | null
  profile: string
  tools: TrialTool[]
  stages: Trial['stages']
}

export interface Metrics {
  total: number
  logged: number
  first: string | null
  last: string | null
  latency_us: Record<string, number | null>
  methods: { profile: string; experiment: string | null; variant: string | null; events: number; share: number }[]
  outcomes: Record<string, number>
  success: number | null
  tools_per_event: number | null
  tokens: { selected_per_event: number | null; saved_per_event: number | null; saved: number; saved_share: number | null }
  degraded: Record<string, number>
}

export interface Timeline {
  per: 'day' | 'hour'
  points: { at: string; selections: number; success: number | null; latency_us: number; saved: number }[]
  degraded: { part: string; selections: number; first: string; last: string }[]
}

export interface Accuracy {
  calls: number
  hits: number
  rate: number | null
  days: { day: string; calls: number; hits: number; rate: number }[]
}

export interface Broken {
  org: string
  tool: string
  worked: number
  first_failure: string
  alarm: string
  failures: number
  reporters: number
  back: string | null
}

export interface Arm {
  org: string
  tool: string
  mean: number
  low: number
  high: number
  called: number
}

export interface Unused {
  events: number
  tools: number
  never_selected: { org: string; name: string; toolkit: string }[]
  never_called: { org: string; name: string; toolkit: string; shown: number }[]
}

export interface PluginCalls {
  org: string
  plugin: string
  calls: number
  succeeded: number
  failed: number
  timed: number
  duration_ms: Duration
  failing: { name: string; calls: number; failed: number }[]
  slow: { name: string; timed: number; mean: number; p95: number }[]
}

/** Of the measured calls; null if there is none. */
export interface Duration {
  mean: number | null
  p95: number | null
}

export interface ToolCalls {
  org: string
  tool: string
  calls: number
  failed: number
  timed: number
  duration_ms: Duration
}

export interface Experiment {
  name: string
  org: string
  unit: string
  active: boolean
  begun_at: string
  ended_at: string | null
  state: 'winner' | 'equal' | 'undecided' | 'unsound'
  winner: string | null
  worth: number
  variants: { name: string; share: number; assigned: number; events: number; unknown: number; mean: number | null }[]
  contrasts: { variant: string; against: string; value: number; low: number | null; high: number | null }[]
  missing: Record<string, number>
}

export interface Drift {
  embedder: string
  stored: boolean
  checked: number
  tools: { org: string; name: string; state: string }[]
}

export interface Heatmap {
  of: string
  tools: string[]
  pages: string[]
  counts: number[][]
  left_out: number
}
