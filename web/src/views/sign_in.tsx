import { useState } from 'preact/hooks'
import { Problem, type Session, signIn, signOut } from '../api'
import { Failure, Notice, TextField } from '../parts/elements'
import { t } from '../texts'

/** Exchanges a service key for a cookie. The page keeps the key nowhere. */
export function SignIn({ onDone }: { onDone: (session: Session) => void }) {
  const [key, setKey] = useState('')
  const [problem, setProblem] = useState<Problem>()
  const [lacksRead, setLacksRead] = useState(false)
  const [isBusy, setIsBusy] = useState(false)
  const submit = async () => {
    setIsBusy(true)
    setProblem(undefined)
    setLacksRead(false)
    try {
      const session = await signIn(key.trim())
      if (session.roles.includes('read')) return onDone(session)
      await signOut()
      setLacksRead(true)
    } catch (error) {
      setProblem(error as Problem)
    } finally {
      setIsBusy(false)
    }
  }
  return (
    <main class="alone">
      <form class="card sign-in" onSubmit={(event) => { event.preventDefault(); void submit() }}>
        <h1>{t.product}</h1>
        <p>{t.signIn.explanation}</p>
        <TextField label={t.signIn.key} value={key} onInput={setKey} type="password" autocomplete="off" required autofocus />
        {problem && (problem.status === 401 ? <Notice tone="bad">{t.signIn.wrong}</Notice> : <Failure problem={problem} />)}
        {lacksRead && <Notice tone="bad">{t.signIn.noRead}</Notice>}
        <button type="submit" disabled={isBusy || !key.trim()}>{t.signIn.button}</button>
        <small>{t.signIn.how}</small>
        <pre tabIndex={0}>{t.signIn.command}</pre>
      </form>
    </main>
  )
}
