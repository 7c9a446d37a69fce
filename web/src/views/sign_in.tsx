import { useEffect, useState } from 'preact/hooks'
import { Problem, readSession, readSignIn, type Session, signIn, signInWithPassword, type SignInWays, signOut } from '../api'
import { Failure, Notice, TextField } from '../parts/elements'
import { t } from '../texts'

const PROVIDER = '/admin/sign-in/provider'

/** Exchanges a service key, or a name and a password, for a cookie. The page keeps neither. */
export function SignIn({ onDone }: { onDone: (session: Session) => void }) {
  const [ways, setWays] = useState<SignInWays>({ accounts: false, provider: '' })
  const [problem, setProblem] = useState<Problem>()
  const [refusal, setRefusal] = useState(refusalOfProvider)
  const [isBusy, setIsBusy] = useState(false)
  useEffect(() => {
    readSignIn().then(setWays, () => {}) // without an answer, the key's field is there
  }, [])
  const submit = async (begin: () => Promise<Session>, wrong: string) => {
    setIsBusy(true)
    setProblem(undefined)
    setRefusal('')
    try {
      const session = await begin()
      if (session.roles.includes('read')) return onDone(session)
      await signOut()
      setRefusal(t.signIn.noRead)
    } catch (error) {
      if ((error as Problem).status === 401) setRefusal(wrong)
      else setProblem(error as Problem)
    } finally {
      setIsBusy(false)
    }
  }
  return (
    <main class="alone">
      <div class="card sign-in">
        <h1>{t.product}</h1>
        {problem && <Failure problem={problem} />}
        {refusal && <Notice tone="bad">{refusal}</Notice>}
        {ways.provider && <a class="button" href={PROVIDER}>{t.signIn.at(ways.provider)}</a>}
        {ways.accounts && <WithPassword isBusy={isBusy} onSubmit={(name, password) => void submit(async () => {
          await signInWithPassword(name, password)
          return readSession()
        }, t.signIn.wrongPassword)} />}
        <WithKey isBusy={isBusy} onSubmit={(key) => void submit(() => signIn(key), t.signIn.wrong)} />
      </div>
    </main>
  )
}

function WithPassword({ isBusy, onSubmit }: { isBusy: boolean; onSubmit: (name: string, password: string) => void }) {
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  return (
    <form class="pile" onSubmit={(event) => { event.preventDefault(); onSubmit(name, password) }}>
      <TextField label={t.signIn.name} value={name} onInput={setName} autocomplete="username" required />
      <TextField label={t.signIn.password} value={password} onInput={setPassword} type="password" autocomplete="current-password" required />
      <button type="submit" disabled={isBusy || !name || !password}>{t.signIn.passwordButton}</button>
    </form>
  )
}

function WithKey({ isBusy, onSubmit }: { isBusy: boolean; onSubmit: (key: string) => void }) {
  const [key, setKey] = useState('')
  return (
    <form class="pile" onSubmit={(event) => { event.preventDefault(); onSubmit(key.trim()) }}>
      <p>{t.signIn.explanation}</p>
      <TextField label={t.signIn.key} value={key} onInput={setKey} type="password" autocomplete="off" required autofocus />
      <button type="submit" disabled={isBusy || !key.trim()}>{t.signIn.button}</button>
      <small>{t.signIn.how}</small>
      <pre tabIndex={0}>{t.signIn.command}</pre>
    </form>
  )
}

/** The service's message, in the page's address, about a failed sign-in at the identity provider. */
function refusalOfProvider(): string {
  const kind = new URLSearchParams(location.search).get('problem') ?? ''
  if (kind) history.replaceState(null, '', location.pathname + location.hash)
  return (t.signIn.refused as Record<string, string>)[kind] ?? ''
}
